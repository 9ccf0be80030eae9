// Package health answers one question for each server: is it worth a call? Its
// inputs are all that shows the server's condition: sessions, attempts of calls, health checks,
// lists, and the pauses that the server asks for. It says whether calls go there, when to check the
// server and when to connect again, and what operators see.
//
// A [Server] is in the first of these states that holds.
//
//	state      holds while                                        a call
//	Down       there is no session                                fails at once
//	Renewing   the server forgot its session; another is opened   waits for it
//	Paused     the server asked for a pause (Retry-After)         is refused until the pause ends
//	Suspended  the circuit breaker is open                        is refused until the cool-down ends
//	Probing    the breaker is half-open                           is a probe, or is refused
//	Failing    five gets in a row have failed                     is made
//	Well       none of that                                       is made
//
// The breaker of a session counts attempts in a row that the server left without an answer. Package
// gobreaker keeps its state, its cool-down and its counts; this package records which callers had
// the failures and which probe:
//
//	closed     opens when such an attempt ends, once there are Settings.Failures, if several callers
//	           had them (one that is not known is several)
//	open       is half-open once somebody asks for the state, or begins a call, after
//	           Settings.Cooldown
//	half-open  lets two callers have one call each at the server. The first answer closes it. An
//	           attempt without one suspends its own caller for another cool-down; after those of two
//	           callers, it opens again
//
// So the calls of one caller, whether they fail, hang or are given up, never keep a server from
// others: its failures do not open the breaker, and its probes neither open it again nor keep the
// next caller from probing.
//
// The inputs, and their effects:
//
//	input              effect
//	Up                 there is a session, with a closed breaker; ends Renewing and Down
//	Renew              Renewing; attempts on the old session count no more, but for answers
//	Down               Down; failures are forgotten, unless the server is up and only forgot its
//	                   session again: what comes back may be another server
//	Begin              an attempt, or an error if the breaker refuses it, whatever the state: callers
//	                   see to Down, Renewing and Paused. It counts while the breaker is in the state
//	                   in which it began
//	End  Answered      with a result or a JSON-RPC error: ends the failures in a row, and Failing if
//	                   it was a get; the list is requested again if it was denied
//	     Refused       in full, but not usably, by HTTP 401, say: a get counts for Failing; for the
//	                   breaker the server works
//	     Unanswered    not, not in full, or by HTTP 503, say: counts for the breaker, and a get for
//	                   Failing
//	     Suspicious    beside either of these: the server is checked at once
//	     Lost          for the breaker the server works; the caller makes the attempt again
//	     Excused       none: the caller left, or there was no slot, or hardly any time
//	Asks               for the breaker the server works, before the call has ended: a reply may
//	                   take minutes
//	Unsent             a get counts for Failing; while Down, only if the server is up and forgets
//	                   its session again and again
//	Pause              Paused until its end; no calls, checks or connects meanwhile. The last one
//	                   counts, even if it is shorter
//	SetDenied          whether the server denies the list of prompts
//
// A server from which nothing has come for half a minute, while no call is in flight, is checked as
// well. A check that is not answered within the upstream's timeout ends the session: the server is then
// Down or Renewing.
//
// Each effect is small: a value that is returned, a mark in a channel ([Server.Suspect],
// [Server.Relist]), or a [Report] when what operators see changes. The package makes no request
// and starts no goroutine; its clock is package time's. Beside the machine there is [Reconnect], the
// waits between attempts to connect.
package health
