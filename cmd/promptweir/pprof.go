package main

import (
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"

	"github.com/felixge/fgprof"
)

const (
	// blockSample is the blocked time of all goroutines together per sample of the block profile.
	blockSample = 10 * time.Millisecond
	// mutexSample is the number of contended locks per sample of the mutex profile.
	mutexSample = 100
)

// startProfiling turns on the block and mutex profiles, sampled so rarely that they cost nothing noticeable, and returns the
// handler of the profiles under /debug/: the runtime's, and fgprof's of goroutines on and off the CPU. Importing
// net/http/pprof also adds them to http.DefaultServeMux, which nothing serves.
func startProfiling() http.Handler {
	runtime.SetBlockProfileRate(int(blockSample))
	runtime.SetMutexProfileFraction(mutexSample)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.Handle("GET /debug/fgprof", fgprof.Handler())
	return mux
}
