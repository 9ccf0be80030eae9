package main

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
)

// sink receives what is exported over OTLP with http/protobuf, and keeps nothing of it. A GET says how many exports of each signal came.
type sink struct{ traces, metrics, logs atomic.Int64 }

// ServeHTTP implements [http.Handler].
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		_, _ = fmt.Fprintf(w, "%d %d %d\n", s.traces.Load(), s.metrics.Load(), s.logs.Load()) // fails only if the client has gone
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	switch r.URL.Path {
	case "/v1/traces":
		s.traces.Add(1)
	case "/v1/metrics":
		s.metrics.Add(1)
	case "/v1/logs":
		s.logs.Add(1)
	default:
		http.NotFound(w, r)
	}
}
