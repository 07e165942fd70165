// Package framing refuses HTTP/1 connections on which two readers could
// disagree where a request ends: the way by which one request is smuggled
// inside another, past a proxy's rules.
//
// net/http forgives what RFC 9112 lets a server forgive: Content-Length beside
// Transfer-Encoding, a repeated Content-Length, folded header lines, bare line
// feeds, chunk extensions, trailers. A proxy before warden may read the same
// bytes otherwise. No client of ours sends any of it, so here all of it ends
// the connection with 400, before net/http has seen the whole head.
//
// Reader's path: conn.go wraps a listener; scanner.go follows the bytes of one
// connection from request to request; head.go judges the lines of a head.
package framing
