// Package front is how clients come in: the keys they need, the certificate
// they see, and what their connections may not do. What is on disk for it is
// read again when it changes; what cannot be used leaves everything as it was,
// and says so.
//
// Reader's path: front.go (opening, serving, asking oneself), renew.go (changed
// files), keysfile.go (the file that `warden keys` writes and warden reads), keyslock.go
// (one editor of it after the other), expiry.go (a certificate that ends).
// The rules themselves are in router/keys, router/framing and router/secure.
package front
