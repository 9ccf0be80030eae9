package admin

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/promptweir/promptweir/gateway/snapshot"
)

// addAPI adds what programs are told: the same as on the pages, as JSON.
func (h handler) addAPI(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/catalog", h.answers(func(r *http.Request) (any, error) {
		query, err := ReadQuery(r)
		if err != nil {
			return nil, err
		}
		return h.opts.View.Search(query)
	}))
	mux.HandleFunc("GET /api/upstreams", h.answers(func(r *http.Request) (any, error) {
		upstreams, err := h.opts.View.Upstreams(r.FormValue("team"))
		return struct {
			Upstreams []UpstreamHealth `json:"upstreams"`
		}{upstreams}, err
	}))
	mux.HandleFunc("GET /api/explain", h.answers(func(r *http.Request) (any, error) {
		return h.opts.View.Explain(r.FormValue("name"), r.FormValue("as"))
	}))
	mux.HandleFunc("GET /api/config", h.answers(func(r *http.Request) (any, error) {
		return h.opts.View.Settings(r.FormValue("team"))
	}))
}

// answers serves operators what a function returns.
func (h handler) answers(answer func(r *http.Request) (any, error)) http.HandlerFunc {
	return h.operatorsOnly(func(w http.ResponseWriter, r *http.Request) { serveJSON(w, r, answer) })
}

// ReadQuery reads the query of a request.
func ReadQuery(r *http.Request) (CatalogQuery, error) {
	q := CatalogQuery{Text: r.FormValue("q"), Team: r.FormValue("team"), As: r.FormValue("as")}
	if page := r.FormValue("page"); page != "" {
		var err error
		if q.Page, err = strconv.Atoi(page); err != nil || q.Page < 1 {
			return CatalogQuery{}, &QueryError{"page: write a number from 1 on"}
		}
	}
	return q, nil
}

// serveJSON answers with a value or with an object that says what is wrong.
func serveJSON(w http.ResponseWriter, r *http.Request, answer func(r *http.Request) (any, error)) {
	value, err := answer(r)
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	if err != nil {
		status := http.StatusInternalServerError
		if _, ok := errors.AsType[*QueryError](err); ok {
			status = http.StatusBadRequest
		}
		w.WriteHeader(status)
		value = struct {
			Error string `json:"error"`
		}{err.Error()}
	}
	writeIndented(w, value)
}

// Drain is the body of POST /api/drain: which upstream to take out of service or, with drained
// false, to let serve again. The response's says what holds then, and since when.
type Drain struct {
	Upstream string     `json:"upstream"`
	Drained  *bool      `json:"drained"`
	Since    *time.Time `json:"since,omitempty"`
}

// maxDrain bounds the body of a request, in bytes.
const maxDrain = 4 << 10

var errNoDrain = errors.New(`the body must be {"upstream": "NAME", "drained": true}, or false to let it serve again`)

// serveDrain takes an upstream out of service by hand, or lets it serve again. The answer comes
// once that holds.
func (h handler) serveDrain(w http.ResponseWriter, r *http.Request) {
	var drain Drain
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxDrain))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&drain); err != nil || drain.Upstream == "" || drain.Drained == nil ||
		drain.Since != nil || hasMore(decoder) {
		http.Error(w, errNoDrain.Error(), http.StatusBadRequest)
		return
	}
	since, err := h.opts.SetDrained(r.Context(), h.opts.Operators.Client(r), drain.Upstream,
		*drain.Drained)
	switch {
	case errors.Is(err, snapshot.ErrUnknownUpstream):
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if *drain.Drained {
		drain.Since = &since
	}
	w.Header().Set("Content-Type", "application/json")
	writeIndented(w, drain)
}

// hasMore reports whether anything follows the value that was decoded.
func hasMore(d *json.Decoder) bool {
	_, err := d.Token()
	return !errors.Is(err, io.EOF)
}
