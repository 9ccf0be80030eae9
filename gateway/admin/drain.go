package admin

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/promptweir/promptweir/gateway/snapshot"
)

// Drain is the body of POST /api/drain: which upstream to take out of service or, with drained false, to let serve again. The
// response's says what holds then, and since when.
type Drain struct {
	Upstream string     `json:"upstream"`
	Drained  *bool      `json:"drained"`
	Since    *time.Time `json:"since,omitempty"`
}

// maxDrain bounds the body of a request, in bytes.
const maxDrain = 4 << 10

var errNoDrain = errors.New(`the body must be {"upstream": "NAME", "drained": true}, or false to let it serve again`)

// serveDrain takes an upstream out of service by hand, or lets it serve again. The answer comes once that holds.
func (h handler) serveDrain(w http.ResponseWriter, r *http.Request) {
	var drain Drain
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxDrain))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&drain); err != nil || drain.Upstream == "" || drain.Drained == nil || drain.Since != nil || hasMore(decoder) {
		http.Error(w, errNoDrain.Error(), http.StatusBadRequest)
		return
	}
	since, err := h.SetDrained(r.Context(), h.Operators.Client(r), drain.Upstream, *drain.Drained)
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
