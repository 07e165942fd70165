package lru

import "testing"

func TestLeastRecentlyUsedGoesFirst(t *testing.T) {
	m := New[int, string](2)
	m.Put(1, "a")
	m.Put(2, "b")
	m.Get(1)
	m.Peek(2) // looking is no use
	m.Put(3, "c")
	m.Put(3, "d")
	if _, ok := m.Get(2); ok {
		t.Error("the least recently used was kept")
	}
	if v, ok := m.Get(1); !ok || v != "a" {
		t.Error("a used one was forgotten")
	}
	if v, _ := m.Get(3); v != "d" || m.Len() != 2 || len(m.items) != 2 {
		t.Errorf("%q, %d in order, %d items", v, m.Len(), len(m.items))
	}
}
