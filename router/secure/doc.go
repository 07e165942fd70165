// Package secure is the API over TLS: a certificate that can be renewed while
// connections are open, and a listener for it.
//
// Reader's path: certificate.go, then listener.go. Clients get HTTP/2 where
// they can (ALPN), and never less than TLS 1.2.
package secure
