package requests_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// elicitation is one as a server of 2025-11-25 names it in the data of -32042.
const elicitation = `{"mode":"url","elicitationId":"e1","url":"https://example.com/","message":"Go","x":2.50}`

// An error of an upstream, of either era, and what a client gets for it. A client of the legacy era gets each as it was
// sent, and so does one of 2026-07-28 where modern is empty.
func TestUpstreamError_CodesThat20260728ReservesDoNotPassToItsClients(t *testing.T) {
	peers := map[string]*peer{"old": newPeer("old", "p"), "new": newModernPeer("new", "p")}
	s := serve(t, teamOf("a", "", "", peers["old"], peers["new"]), peers["old"], peers["new"])
	clients := map[string]func(method, params string) response{
		"legacy": s.legacy("2025-11-25", "").callUnchecked, "modern": s.modern("").callUnchecked,
		"url": s.modern("").with(`{"elicitation":{"url":{}}}`).callUnchecked,
	}
	data := `,"message":"\u006eo","data":{"n":1.50},"more":[1e400]}`
	hop := func(code string) string {
		return `{"code":-32603,"message":"\u006eo","data":{"n":1.50,"upstreamCode":` + code + `},"more":[1e400]}`
	}
	urls := func(list string) string {
		return `{"code":-32042,"message":"first","data":{"elicitations":[` + list + `]}}`
	}
	// Schemas know the codes, so that some of these errors are none to them.
	gone := func(list string) string {
		return `{"code":-32603,"message":"first","data":{"elicitations":[` + list + `],"upstreamCode":-32042}}`
	}
	for _, row := range []struct{ sent, modern, url string }{
		{sent: `{"code":-32002` + data, modern: `{"code":-32602` + data},
		{sent: `{"code":-32002,"message":"no"}`, modern: `{"code":-32602,"message":"no"}`},
		{sent: `{"code":-32020` + data, modern: hop("-32020")},
		{sent: `{"code":-32021` + data, modern: hop("-32021")},
		{sent: `{"code":-32023` + data, modern: hop("-32023")},
		{sent: `{"code":-3.2099e4` + data, modern: hop("-32099")},
		{sent: `{"code":-32050,"message":"no"}`, modern: `{"code":-32603,"message":"no","data":{"upstreamCode":-32050}}`},
		{sent: `{"code":-32050,"message":"no","data":[1]}`, modern: `{"code":-32603,"message":"no","data":{"data":[1],"upstreamCode":-32050}}`},
		{sent: urls(elicitation), modern: gone(elicitation), url: `"result":{"resultType":"input_required","inputRequests":{"1":{"method":"elicitation/create","params":` + elicitation + `}},"requestState":`},
		{sent: urls(elicitation + "," + elicitation), modern: gone(elicitation + "," + elicitation), url: `"2":{"method"`},
		{sent: urls(""), modern: gone("")},
		{sent: urls(`{"mode":"form","message":"Go","url":"https://example.com/"}`), modern: gone(`{"mode":"form","message":"Go","url":"https://example.com/"}`)},
		{sent: urls(`{"mode":"url","message":"Go"}`), modern: gone(`{"mode":"url","message":"Go"}`)},
		{sent: urls(strings.Repeat(elicitation+",", 8) + elicitation), modern: gone(strings.Repeat(elicitation+",", 8) + elicitation)},
		{sent: `{"code":-32042,"message":"no"}`, modern: `{"code":-32603,"message":"no","data":{"upstreamCode":-32042}}`},
		{sent: `{"code":-32000` + data},
		{sent: `{"code":-32019` + data},
		{sent: `{"code":-32100` + data},
		{sent: `{"code":-32603` + data},
		{sent: `{"code":0,"message":"","data":null}`},
		{sent: `{"message":"first","code":-32600,"extra":1e3}`},
		{sent: `{"code":-32001,"message":"no such \u0041","data":{"n":12345678901234567890}}`},
	} {
		for era, p := range peers {
			p.answer("prompts/get", "error:"+row.sent)
			p.answer("completion/complete", "error:"+row.sent)
			for client, call := range clients {
				want := row.sent
				if client != "legacy" && row.modern != "" {
					want = row.modern
				}
				complete, get := `"error":`+want+`}`, `"error":`+want+`}`
				if client == "url" && row.url != "" {
					get = row.url
				}
				call("prompts/get", gatewaytest.GetParams(era+".p")).want(t, get)
				call("completion/complete", gatewaytest.CompleteParams(era+".p")).want(t, complete)
			}
		}
	}
}

// -32021 is about the capabilities of the client that the upstream was told of, so that it passes to a
// client without them.
func TestUpstreamError_MissingCapabilityPassesToAClientThatLacksIt(t *testing.T) {
	p := newModernPeer("new", "p")
	s := serve(t, teamOf("a", "", "", p), p)
	const required = `{"requiredCapabilities":{"elicitation":{"form":{}}},"x":1.50}`
	p.answer("prompts/get", `error:{"code":-32021,"message":"ask","data":`+required+`}`)
	for declared, want := range map[string]string{
		`{}`:                          `"error":{"code":-32021,"message":"ask","data":` + required + `}`,
		`{"sampling":{}}`:             `"error":{"code":-32021,"message":"ask","data":` + required + `}`,
		`{"elicitation":{"form":{}}}`: `"code":-32603`,
	} {
		s.modern("").with(declared).callUnchecked("prompts/get", gatewaytest.GetParams("new.p")).want(t, want)
	}
}

func TestUpstreamError_GetIsMadeAnewOnceItsURLWasVisited(t *testing.T) {
	p := newPeer("up", "ask")
	s := serve(t, teamOf("a", "", "", p), p)
	call := s.modern("").with(`{"elicitation":{"url":{}}}`).callUnchecked
	p.answer("prompts/get", `error:{"code":-32042,"message":"first","data":{"elicitations":[`+elicitation+`]}}`)
	first := call("prompts/get", `{"name":"up.ask","arguments":{"a":"1"}}`)
	again := func(action string) response {
		return call("prompts/get", fmt.Sprintf(`{"name":"up.ask","arguments":{"a":"1"},"requestState":%q,"inputResponses":{"1":{"action":%q}}}`, first.RequestState(t), action))
	}
	again("accept").want(t, `"resultType":"input_required"`) // it was not visited after all
	asked := len(p.calls("prompts/get"))
	again("decline").want(t, `"code":-32603`, "did not provide the required input: decline")
	upstreamtest.Equal(t, asked, len(p.calls("prompts/get")), "gets that reached the upstream, with one of a client that declined")
	p.answer("prompts/get", `{"messages":[]}`)
	again("accept").want(t, `"resultType":"complete"`, `"messages":[]`)
	gets := p.calls("prompts/get")
	var params map[string]json.RawMessage
	if err := json.Unmarshal([]byte(gets[len(gets)-1]), &params); err != nil {
		t.Fatal(err)
	}
	if len(params) != 2 || string(params["arguments"]) != `{"a":"1"}` {
		t.Errorf("the upstream receives %s, want the name and arguments alone", gets[len(gets)-1])
	}
}
