// Package health answers one question for each endpoint of an upstream: is it worth a call? It is
// told of everything that shows how the server is: sessions, attempts of calls, health checks,
// lists, and the pauses that the server asks for. It says whether calls go there, when the server
// is to be checked, when to connect again, and what operators see.
//
// An [Endpoint] is in the first of these states that holds. Calls go to one that is
// [Endpoint.Ready] if there is one: Well, Failing, Probing, or Paused as all of the upstream are.
//
//	state      holds while                                        a call
//	Down       there is no session                                fails at once
//	Renewing   the server forgot its session; another is opened   waits for it
//	Paused     the server asked for a pause (Retry-After)         is refused until the pause ends
//	Suspended  the circuit breaker is open                        is refused until the cool-down ends
//	Silent     a health check has had no answer in its time       is made, if no other one is Ready
//	Probing    the breaker is half-open                           is a probe, if the breaker lets it through
//	Failing    five gets in a row have failed                     is made
//	Well       none of that                                       is made
//
// The breaker of a session counts attempts in a row that the server left without an answer. Package
// gobreaker keeps its state, its cool-down and its counts; this package records which callers had
// the failures and which probe:
//
//	closed     opens when an attempt ends, once there are Settings.Failures, if several callers
//	           had them (one that is not known is several) or the endpoint is Silent
//	open       is half-open after Settings.Cooldown
//	half-open  lets two callers have one call each at the server. The first answer closes it. An
//	           attempt without one suspends its own caller for another cool-down; after those of two
//	           callers, or of one while the endpoint is Silent, it opens again
//
// So the calls of one caller, whether they fail, hang or are given up, never keep an endpoint from
// others: its failures do not open the breaker, and its probes neither open it again nor keep the
// next caller from probing.
//
// The inputs, and their effects:
//
//	input              effect
//	Up                 there is a session, with a closed breaker; ends Silent, Renewing and Down
//	Renew              Renewing; attempts on the old session count no more, but for answers
//	Down               Down; failures are forgotten, unless the server is up and only forgot its
//	                   session again: what comes back may be another server
//	Begin              an attempt, or an error if the breaker refuses it
//	End  Answered      ends the failures in a row, and Failing if it was a get; the list is
//	                   requested again if it was denied
//	     Refused       a get counts for Failing; for the breaker the server works
//	     Unanswered    counts for the breaker, and a get for Failing
//	     Suspicious    beside any of these: the server is checked
//	     Lost          for the breaker the server works; the caller makes the attempt again
//	     Excused       none: the caller left, or there was no slot, or hardly any time
//	Asks               for the breaker the server works, before the call has ended: a reply may
//	                   take minutes
//	Unsent             a get counts for Failing, unless Down (but not if that is for forgetting)
//	Pause              Paused until its end; no calls, checks or connects meanwhile
//	Late               Silent
//	Checked            ends Silent if there was an answer; adapts how long a check may take
//	SetDenied          whether the server denies the list of prompts
//
// Each effect is small: a value that is returned, a mark in a channel ([Endpoint.Suspect],
// [Endpoint.Relist]), or a [Report] when what operators see changes. The package makes no request
// and starts no goroutine; its clock is package time's. Beside the machine there are [Balance],
// which orders endpoints by the calls that they have in flight, and [Reconnects], the pace at which
// very many endpoints connect again.
package health
