package router

import "container/list"

// lru is a map of bounded size that forgets what was used longest ago.
type lru[K comparable, V any] struct {
	size  int
	items map[K]*list.Element
	order list.List // front: used latest
}

type lruItem[K comparable, V any] struct {
	key   K
	value V
}

func newLRU[K comparable, V any](size int) *lru[K, V] {
	return &lru[K, V]{size: size, items: map[K]*list.Element{}}
}

// get returns the value of key and marks it as used.
func (l *lru[K, V]) get(key K) (value V, ok bool) {
	e, ok := l.items[key]
	if !ok {
		return value, false
	}
	l.order.MoveToFront(e)
	return e.Value.(*lruItem[K, V]).value, true
}

// put sets the value of key and marks it as used.
func (l *lru[K, V]) put(key K, value V) {
	if e, ok := l.items[key]; ok {
		e.Value.(*lruItem[K, V]).value = value
		l.order.MoveToFront(e)
		return
	}
	l.items[key] = l.order.PushFront(&lruItem[K, V]{key, value})
	if l.order.Len() > l.size {
		oldest := l.order.Back()
		delete(l.items, l.order.Remove(oldest).(*lruItem[K, V]).key)
	}
}
