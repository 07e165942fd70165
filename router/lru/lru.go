// Package lru is a map of bounded size that forgets what was used longest ago.
// It has no lock: its owner serialises.
package lru

import "container/list"

// Map is such a map. Make one with New.
type Map[K comparable, V any] struct {
	size  int
	items map[K]*list.Element
	order list.List // front: used latest
}

type item[K comparable, V any] struct {
	key   K
	value V
}

// New returns a Map that holds at most size values; size is at least 1.
func New[K comparable, V any](size int) *Map[K, V] {
	return &Map[K, V]{size: max(size, 1), items: map[K]*list.Element{}}
}

// Len is the number of values held.
func (m *Map[K, V]) Len() int { return m.order.Len() }

// Get returns the value of key and marks it as used.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	if e, ok := m.items[key]; ok {
		m.order.MoveToFront(e)
	}
	return m.Peek(key)
}

// Peek returns the value of key without marking it: looking is no use.
func (m *Map[K, V]) Peek(key K) (value V, ok bool) {
	e, ok := m.items[key]
	if !ok {
		return value, false
	}
	return e.Value.(*item[K, V]).value, true
}

// Put sets the value of key and marks it as used.
func (m *Map[K, V]) Put(key K, value V) {
	if e, ok := m.items[key]; ok {
		e.Value.(*item[K, V]).value = value
		m.order.MoveToFront(e)
		return
	}
	m.items[key] = m.order.PushFront(&item[K, V]{key, value})
	if m.order.Len() > m.size {
		oldest := m.order.Back()
		delete(m.items, m.order.Remove(oldest).(*item[K, V]).key)
	}
}
