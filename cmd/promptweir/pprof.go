package main

import (
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"

	"github.com/felixge/fgprof"
)

const (
	// blockSample is how long goroutines block, all together, for one sample of where they do.
	blockSample = 10 * time.Millisecond
	// mutexSample is how many contended mutexes there are for one sample of who held them.
	mutexSample = 100
)

// startProfiling has blocking and contention sampled from now on, seldom enough not to be felt, and returns what serves the
// profiles under /debug/: the runtime's own, and fgprof's of goroutines both on and off the CPU. (Importing net/http/pprof
// adds them to http.DefaultServeMux as well, which nothing here serves.)
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
