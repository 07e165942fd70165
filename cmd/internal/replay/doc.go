// Package replay turns an access log into a load that can be played again, and
// says how the two compare: another policy tried on yesterday's requests.
//
// Reading order: plan.go (lines -> conversations, and what was measured then),
// prefix.go (how much of their prompts is common to several), summary.go (what
// a person is told). The playing itself is load.Replay.
//
// # What is the same, and what is not
//
// The same are the times of arrival (divided by the speed), the conversations,
// the number of tokens of each prompt and each answer, and clients that leave.
// A conversation's prompt grows as recorded, from the same beginning; where it
// became shorter, as much of it stays as the engine found in its cache then.
//
// The words are others, since the log has none, and answers are as long as
// recorded only where the engine honours ignore_eos (vLLM does, but for
// /v1/messages). How much of their prompts conversations share is not in the log
// either: it is taken from what the first turns of new ones found cached.
// Conversations that began before the log begin cold. Refused requests are not
// played, nor those that generate nothing. Each API is played as itself;
// /v1/responses with all of the history in its input, whatever the engine had
// stored then. All answers are streamed. Requests that belong to no
// conversation, or are an agent's asides, are sent without an id.
package replay
