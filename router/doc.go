// Package router is the data path: one HTTP request of an agent becomes one
// request to one replica, and the answer is copied back as it comes.
//
// Reader's path, in the order a request takes it:
//
//	router.go      Options, New, ServeHTTP, Drain, Close
//	keys.go        who may ask at all, and how much at once (keys/); the
//	               rest of that is in gate/
//	routes.go      the closed list of methods and paths; local answers
//	models.go      which model a name means
//	mends.go       what is changed in a body for an engine or a client, and why
//	exchange.go    one request from here to its last byte, step by step; its
//	               body is read once, into a payload/, and it gets a place, again
//	               and again if need be, from its model's deployment/
//	priority.go    when it comes in turn inside that engine
//	attempt.go     one try on one replica: what failed, and for whom to see
//	relay.go       copying the answer: flushed at once, never invented
//	stream.go      a stream: copied by the handler up to its first token, then
//	               taken from net/http (keepalive/) and copied by the pump/
//	ends.go        what is to be done at the end, whoever comes to it
//	refusal.go     what a client is told when it gets no answer
//	trace.go       its place in a distributed trace, and who is told of its end
//
// and beside the path:
//
//	replicas.go    what the supervisor tells us about replicas and engines
//	snapshot.go    a copy of it all for screens; metrics.go for Prometheus;
//	               sessions.go for the next warden
//
// The folders below hold what can be read alone: deployment (a model and its replicas,
// and the lock under which a place is chosen), identity (which conversation
// is this; its scan reads bodies), placement (where does it go), dialect (what the
// APIs differ in), gate (which requests and headers may pass), keys (API keys), framing and
// secure (connections that clients may not abuse, TLS), deadlines (how long a client
// may send or read nothing), payload (a body, read once), link
// (connections to one process, and HTTP over them), pump (one goroutine that
// waits for all streams), keepalive (clients' connections, taken from net/http and
// given back), socket (system calls of those connections and of clients'), record (what is known of a request at its end),
// breaks (why a cached prefix stopped matching), mends (what a user may choose
// about changed bodies), metrics, figures and window (what was done, in total
// and lately), lru and names (a bounded map, and help with typing errors).
//
// # What a client can rely on
//
// Until the first byte of an answer has been sent, a replica's death costs it
// nothing but time: the request is tried on another one. An unstreamed answer
// is sent once it is complete, or holds more than 1 MiB. After that it sees the
// truth: an error event in the API's own form where one can still be read,
// then a broken connection, never a finish that the engine did not write.
//
// # Waiting
//
// A request that finds no place is held, and its connection with it, for at
// most 240 s; then it is refused with 429 and when to ask again (1 to 60 s).
// Meanwhile nothing is sent. Pings would be possible in event streams, and we
// do not send them: the first one fixes status 200 and the headers, and with
// them goes what a refusal needs (429, Retry-After, x-warden-reason,
// x-warden-replica) and what failover needs (nothing sent yet), while they
// save nobody, since the least patient client (Claude Code) waits 300 s, and
// some versions of it do not count pings at all.
//
// A request that the same client sends again, its patience having ended without
// its connection having closed, ends the earlier copy: see resend.go.
//
// # Two lifetimes
//
// A request lives as long as its client stays connected and the Router is not
// closed; its cancellation reaches the engine at once. The Router itself
// outlives all of them: Drain waits for the last, Close cuts them.
//
// # What a stream costs
//
// Agents' streams wait most of their time, and there are many. Up to the first
// token the goroutine that net/http serves the client with also speaks to the
// engine (link/). Then the client's connection is taken from net/http, whose
// goroutines, buffers and request go, and the engine's connection from Go's
// network poller: a goroutine of the exchange's own sleeps, and the pump's one
// waits for all engines' sockets, reads from them and writes to the clients'. One
// that does not take all at once is written to by its exchange's goroutine, which
// may wait. The pump also sees that a client leaves. At its end the exchange's
// goroutine settles the accounts and gives the client's connection back to
// net/http. A quiet stream costs 9 KiB, of which that goroutine's stack is most.
//
// Streams over TLS or HTTP/2, to HTTP/1.0, and those for which there are no
// descriptors stay with net/http and cost about four times that; while they wait
// they hold no buffer of warden's.
//
// The request's body and all that was read of it are given back with the first
// byte of the answer, after which nobody can ask for them. What has arrived
// together is sent on together, with one write.
//
// # Figures
//
// bars_test.go holds the package to figures: how soon an engine learns that a
// client has left, that no cut answer looks complete, that nothing is sent
// twice, that no pieces are joined; cost_test.go to what a stream and a large
// body may take. `go test` runs them with a few hundred requests each;
// WARDEN_BARS=full go test -run Bar ./router runs the 10,000 disconnects, 5,000
// cut streams and 100 large bodies that the figures are stated for.
package router
