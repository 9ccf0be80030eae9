// Package health is one state machine for each endpoint of an upstream. It is told of everything
// that shows how the server is: sessions, attempts of calls, health checks, lists, and pauses that
// it asks for. It says whether calls go there, when the server is to be checked, when to connect
// again, and what operators see.
//
// The states of an [Endpoint], of which the first that holds counts, and what becomes of a call:
//
//	state      holds while                                        a call
//	Down       there is no session                                fails at once
//	Renewing   the server forgot its session; another is opened   waits for it
//	Paused     the server asked for a pause (Retry-After)         is refused until the pause ends
//	Suspended  the circuit breaker is open                        is refused until the cool-down ends
//	Silent     a health check has had no answer in its time       is made elsewhere if possible
//	Probing    the breaker is half-open                           is made, one at a time, and decides
//	Failing    five gets in a row have failed                     is made
//	Well       none of that                                       is made
//
// The inputs, and their effects:
//
//	input              effect
//	Up                 there is a session, with a closed breaker; ends Silent, Renewing and Down
//	Renew              Renewing; attempts on the old session count no more, but for answers
//	Down               Down; failures are forgotten, unless the server is up and only forgot its
//	                   session again: what comes back may be another server
//	Begin              an attempt, or an error while Suspended
//	End  Answered      ends the failures in a row, and Failing if it was a get; the list is
//	                   requested again if it was denied
//	     Refused       a get counts for Failing; for the breaker the server works
//	     Unanswered    counts for the breaker, and a get for Failing; the server is checked
//	     Lost          for the breaker the server works; the caller makes the attempt again
//	     Asks          the same, before the call has ended: a person may take minutes to reply
//	     Excused       none: the caller left, or there was no slot, or hardly any time
//	Unsent             a get counts for Failing, unless it is Down
//	Pause              Paused until its end; no calls, checks or connects meanwhile
//	Late               Silent
//	Checked            ends Silent if there was an answer; adapts how long a check may take
//	SetDenied          whether the server denies the list of prompts
//
// Failures in a row open the breaker if several callers had them, or if the server is Silent: one
// caller who asks over and over for what the server cannot do does not take it from the others.
//
// Each effect is small: a value that is returned, a mark in a channel ([Endpoint.Suspect],
// [Endpoint.Relist]), or a [Report] when what operators see changes. The package makes no request
// and starts no goroutine; its clock is package time's. Beside the machine there are [Balance],
// which orders endpoints by the calls that they have in flight, and [Reconnects], the pace at which
// very many endpoints connect again.
package health
