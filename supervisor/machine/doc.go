// Package machine is the life of one replica as a pure function of events and moments: no clock, no process, no log.
//
// Reader's path: machine.go (the state, Step), events.go (what can happen, and what is to be done about it), then the
// handlers: orders.go (what somebody wants), process.go (what the launcher reports), health.go (what probes say); with
// failures.go (back-off, parked, forgiveness), timing.go (the numbers) and view.go (what others may see).
//
// # States
//
// Each row is checked by TestMachineFollowsItsTable, and so is everything that is not in it: an event without a row
// for its state changes nothing. "draining*" and "stopping*" are the same states on the way to a restart, "stopping!"
// on the way to stopped; "draining-" and "stopping-" are on the way to parked, because a GPU is set aside (Aside);
// "suspect+" is an adopted engine that has not proved itself yet. "stop~", "restart~" and "aside~"
// leave time to drain, which makes a difference only where they have rows of their own. A replica that was drained by
// order goes from warming and suspect+ to draining, not to ready (becomeReady).
//
//	from       | event    | to          | effects
//	-----------|----------|-------------|----------------
//	pending    | start    | waiting_gpu | gate
//	pending    | adopted  | suspect     | arm
//	pending    | stop     | stopped     |
//	pending    | sibling  | pending     |
//	pending    | aside    | parked      |
//	waiting_gpu| gate     | starting    | spawn arm
//	waiting_gpu| stop     | stopped     |
//	waiting_gpu| sibling  | waiting_gpu |
//	waiting_gpu| held     | waiting_gpu |
//	waiting_gpu| aside    | parked      |
//	starting   | spawned  | starting    |
//	starting   | unborn   | backoff     | disarm arm
//	starting   | answers  | warming     | disarm arm
//	starting   | progress | starting    | arm
//	starting   | fired    | stopping    | stop arm
//	starting   | exited   | stopping    | disarm arm
//	starting   | gone     | backoff     | disarm arm
//	starting   | stop     | stopping    | disarm stop arm
//	starting   | restart  | stopping    | disarm stop arm
//	starting   | kill     | stopping    | disarm kill arm
//	starting   | aside    | stopping    | disarm kill arm
//	starting   | aside~   | stopping    | disarm stop arm
//	warming    | warm     | ready       | disarm arm
//	warming    | cold     | stopping    | disarm stop arm
//	warming    | dead     | stopping    | disarm kill arm
//	warming    | progress | warming     | arm
//	warming    | fired    | stopping    | stop arm
//	warming    | exited   | stopping    | disarm arm
//	warming    | gone     | backoff     | disarm arm
//	warming    | stop     | stopping    | disarm stop arm
//	warming    | restart  | stopping    | disarm stop arm
//	warming    | kill     | stopping    | disarm kill arm
//	warming    | aside    | stopping    | disarm kill arm
//	warming    | aside~   | stopping    | disarm stop arm
//	ready      | slow     | suspect     | disarm
//	ready      | dead     | stopping    | disarm kill arm
//	ready      | hung     | stopping    | disarm kill arm
//	ready      | exited   | stopping    | disarm arm
//	ready      | gone     | backoff     | disarm arm
//	ready      | fired    | ready       |
//	ready      | drain    | draining    | disarm
//	ready      | stop     | stopping    | disarm stop arm
//	ready      | restart  | stopping    | disarm stop arm
//	ready      | restart~ | draining    | disarm arm
//	ready      | stop~    | draining    | disarm arm
//	ready      | kill     | stopping    | disarm kill arm
//	ready      | aside    | stopping    | disarm kill arm
//	ready      | aside~   | draining    | disarm arm
//	suspect    | warm     | ready       | arm
//	suspect    | healthy  | ready       | arm
//	suspect    | dead     | stopping    | kill arm
//	suspect    | hung     | stopping    | kill arm
//	suspect    | exited   | stopping    | arm
//	suspect    | gone     | backoff     | arm
//	suspect    | drain    | draining    |
//	suspect    | stop     | stopping    | stop arm
//	suspect    | restart  | stopping    | stop arm
//	suspect    | restart~ | draining    | arm
//	suspect    | stop~    | draining    | arm
//	suspect    | kill     | stopping    | kill arm
//	suspect    | aside    | stopping    | kill arm
//	suspect    | aside~   | draining    | arm
//	suspect+   | warm     | ready       | disarm arm
//	suspect+   | cold     | stopping    | disarm stop arm
//	suspect+   | progress | suspect     | arm
//	suspect+   | fired    | stopping    | stop arm
//	suspect+   | dead     | stopping    | disarm kill arm
//	suspect+   | hung     | stopping    | disarm kill arm
//	suspect+   | exited   | stopping    | disarm arm
//	suspect+   | gone     | backoff     | disarm arm
//	suspect+   | drain    | draining    | disarm
//	suspect+   | stop     | stopping    | disarm stop arm
//	suspect+   | restart  | stopping    | disarm stop arm
//	suspect+   | restart~ | draining    | disarm arm
//	suspect+   | stop~    | draining    | disarm arm
//	suspect+   | kill     | stopping    | disarm kill arm
//	suspect+   | aside    | stopping    | disarm kill arm
//	suspect+   | aside~   | draining    | disarm arm
//	draining   | undrain  | ready       | arm
//	draining   | dead     | stopping    | kill arm
//	draining   | hung     | stopping    | kill arm
//	draining   | exited   | stopping    | arm
//	draining   | gone     | backoff     | arm
//	draining   | stop     | stopping    | stop arm
//	draining   | restart  | stopping    | stop arm
//	draining   | restart~ | draining    | arm
//	draining   | stop~    | draining    | arm
//	draining   | kill     | stopping    | kill arm
//	draining   | aside    | stopping    | kill arm
//	draining   | aside~   | draining    | arm
//	draining*  | idle     | stopping    | disarm stop arm
//	draining*  | fired    | stopping    | stop arm
//	draining*  | undrain  | ready       | disarm arm
//	draining*  | dead     | stopping    | disarm kill arm
//	draining*  | hung     | stopping    | disarm kill arm
//	draining*  | exited   | stopping    | disarm arm
//	draining*  | gone     | waiting_gpu | disarm gate
//	draining*  | stop     | stopping    | disarm stop arm
//	draining*  | restart  | stopping    | disarm stop arm
//	draining*  | restart~ | draining    | disarm arm
//	draining*  | stop~    | draining    | disarm arm
//	draining*  | kill     | stopping    | disarm kill arm
//	draining*  | aside    | stopping    | disarm kill arm
//	draining*  | aside~   | draining    | disarm arm
//	draining-  | idle     | stopping    | disarm stop arm
//	draining-  | fired    | stopping    | stop arm
//	draining-  | dead     | stopping    | disarm kill arm
//	draining-  | hung     | stopping    | disarm kill arm
//	draining-  | exited   | stopping    | disarm arm
//	draining-  | gone     | parked      | disarm
//	draining-  | stop     | stopping    | disarm stop arm
//	draining-  | restart  | stopping    | disarm stop arm
//	draining-  | restart~ | draining    | disarm arm
//	draining-  | stop~    | draining    | disarm arm
//	draining-  | kill     | stopping    | disarm kill arm
//	draining-  | aside    | stopping    | disarm kill arm
//	draining-  | aside~   | draining    |
//	stopping   | gone     | backoff     | disarm arm
//	stopping   | unborn   | backoff     | disarm arm
//	stopping   | spawned  | stopping    | stop
//	stopping   | unkilled | stuck       | disarm
//	stopping   | fired    | stopping    | kill arm
//	stopping   | stop     | stopping    |
//	stopping   | restart  | stopping    |
//	stopping   | kill     | stopping    | kill arm
//	stopping   | aside    | stopping    |
//	stopping*  | gone     | waiting_gpu | disarm gate
//	stopping!  | gone     | stopped     | disarm
//	stopping-  | gone     | parked      | disarm
//	stopped    | retry    | waiting_gpu | gate
//	stopped    | restart  | waiting_gpu | gate
//	stopped    | adopted  | stopping    | stop arm
//	stopped    | sibling  | stopped     |
//	backoff    | fired    | waiting_gpu | gate
//	backoff    | retry    | waiting_gpu | disarm gate
//	backoff    | restart  | waiting_gpu | disarm gate
//	backoff    | stop     | stopped     | disarm
//	backoff    | sibling  | backoff     |
//	backoff    | aside    | parked      | disarm
//	parked     | retry    | waiting_gpu | gate
//	parked     | restart  | waiting_gpu | gate
//	parked     | stop     | stopped     |
//	parked     | aside    | parked      |
//	stuck      | gone     | backoff     | arm
//	stuck      | stop     | stuck       |
//	stuck      | retry    | stuck       | kill
//	stuck      | kill     | stuck       | kill
//	stuck      | aside    | stuck       |
//
// Back-off is 1 s doubling to 60 s with full jitter. Five failures within 15 minutes, or the same permanent cause
// twice in a row before the engine was ready, lead to parked instead of backoff. Ready for 10 minutes (fired in ready)
// forgives all failures.
package machine
