package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

func TestDrain_IsForOperators(t *testing.T) {
	teams := gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "up", "a"))
	with := gatewaytest.Serve(t, withToken("open")+teams)
	without := gatewaytest.Serve(t, teams)
	const body = `{"upstream":"up","drained":true}`
	post := func(s *gatewaytest.Server, status int, h ...string) {
		t.Helper()
		gatewaytest.Send(t, http.MethodPost, s.AdminURL+"/api/drain", body, h).Want(t, status)
		if drained := s.Snapshot().Drained("up"); drained != (status == http.StatusOK) {
			t.Errorf("%v: drained = %t", h, drained)
		}
	}
	post(with, http.StatusForbidden)
	post(with, http.StatusForbidden, gatewaytest.Bearer("wrong")...)
	post(without, http.StatusForbidden, "X-Forwarded-For", "192.0.2.1")
	post(without, http.StatusForbidden, "Origin", "http://localhost:1")
	post(without, http.StatusForbidden, "Sec-Fetch-Site", "same-site")
	gatewaytest.Send(t, http.MethodGet, without.AdminURL+"/api/drain", "", nil).Want(t, http.StatusMethodNotAllowed)
	post(with, http.StatusOK, gatewaytest.Bearer("open")...)
	post(without, http.StatusOK)
}

func TestDrain_RefusesOtherBodies(t *testing.T) {
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "up", "a")))
	for body, status := range map[string]int{
		``:                                   http.StatusBadRequest,
		`null`:                               http.StatusBadRequest,
		`[]`:                                 http.StatusBadRequest,
		`{"upstream":"up"}`:                  http.StatusBadRequest,
		`{"drained":true}`:                   http.StatusBadRequest,
		`{"upstream":"up","drained":"true"}`: http.StatusBadRequest,
		`{"upstream":"up","drained":true,"for":"1h"}`:                     http.StatusBadRequest,
		`{"upstream":"up","drained":true} {}`:                             http.StatusBadRequest,
		`{"upstream":"up","drained":true,"since":"2026-01-01T00:00:00Z"}`: http.StatusBadRequest,
		`{"upstream":"` + strings.Repeat("x", 5000) + `","drained":true}`: http.StatusBadRequest,
		`{"upstream":"UP","drained":true}`:                                http.StatusNotFound,
		`{"upstream":"<script>alert(1)</script>","drained":false}`:        http.StatusNotFound,
		`{"upstream":"up","drained":false}`:                               http.StatusOK,
	} {
		r := gatewaytest.Send(t, http.MethodPost, s.AdminURL+"/api/drain", body, nil)
		if r.Want(t, status); t.Failed() {
			t.Fatalf("for %.100s", body)
		}
		if kind := r.Header.Get("Content-Type"); strings.Contains(kind, "html") {
			t.Errorf("content type %s", kind)
		}
	}
	if s.Snapshot().Drained("up") {
		t.Error("a body that was refused has drained the upstream")
	}
}
