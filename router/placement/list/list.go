// Package list is a doubly linked list whose links live in its elements: an
// element is added, moved and removed without an allocation or a search.
package list

// List holds elements in order. Its zero value is empty.
type List[T any] struct{ front, back *Node[T] }

// Node is the place of one element in at most one list. The element holds its
// Node and sets Value to what the list is to yield: itself.
type Node[T any] struct {
	Value      T
	prev, next *Node[T]
}

// Front is the first element's node, nil when the list is empty.
func (l *List[T]) Front() *Node[T] { return l.front }

// Back is the last element's node, nil when the list is empty.
func (l *List[T]) Back() *Node[T] { return l.back }

// Next is the node behind n, Prev the one before it; nil where none is.
func (n *Node[T]) Next() *Node[T] { return n.next }

// Prev is the node before n.
func (n *Node[T]) Prev() *Node[T] { return n.prev }

// PushFront makes n, which is in no list, the first.
func (l *List[T]) PushFront(n *Node[T]) {
	n.prev, n.next = nil, l.front
	if l.front != nil {
		l.front.prev = n
	} else {
		l.back = n
	}
	l.front = n
}

// Remove takes n out. One that is in no list stays out of it.
func (l *List[T]) Remove(n *Node[T]) {
	if n.prev == nil && n.next == nil && l.front != n {
		return
	}
	if n.prev != nil {
		n.prev.next = n.next
	} else {
		l.front = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	} else {
		l.back = n.prev
	}
	n.prev, n.next = nil, nil
}
