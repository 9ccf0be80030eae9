package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/files"
)

// offer is what an upstream offers at one moment.
type offer struct {
	// definitions is the upstream's list or, until there is one, the saved list.
	definitions []jsontext.Value
	// files are those of an upstream without a server, of which definitions are.
	files *files.List
	// endpoints are those of an upstream with several, each with a list of its own; nil for any
	// other upstream, and while the list is the saved one, of which nobody knows which endpoint
	// offered what.
	endpoints []upstream.EndpointState
	// differences are those of [upstream.State].
	differences []string
	// listed is set if the upstream has listed it, so that it is no saved list.
	listed bool
}

// offer returns what the upstream at index i offers, and whether that is known.
func (g *Generation) offer(i int, state *upstream.State) (o offer, known bool) {
	o.definitions, known = g.definitions(i, state)
	o.files, o.listed = state.Files, state.Lists > 0
	if state.Lists > 0 && len(state.Endpoints) > 1 {
		o.endpoints, o.differences = state.Endpoints, state.Differences
	}
	return o, known
}

// same reports whether both are made of the same lists. Lists are compared by identity: a connector
// replaces a list whenever something in it changes.
func (o offer) same(other offer) bool {
	return sameList(o.definitions, other.definitions) &&
		slices.EqualFunc(o.endpoints, other.endpoints, func(a, b upstream.EndpointState) bool {
			return a.Listed == b.Listed && sameList(a.Definitions, b.Definitions)
		})
}

// listedBy returns endpoints with the lists that are offered, as far as they are the same
// endpoints.
func (o offer) listedBy(endpoints []upstream.EndpointState) []upstream.EndpointState {
	if len(o.endpoints) != len(endpoints) {
		return endpoints
	}
	listed := slices.Clone(endpoints)
	for i, e := range o.endpoints {
		listed[i].Listed, listed[i].Definitions = e.Listed, e.Definitions
	}
	return listed
}

func sameList(a, b []jsontext.Value) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// admitOffer is [admission.admit] for all that an upstream offers. After a panic over it, the error
// is not that of ctx.
func (a *admission) admitOffer(
	ctx context.Context, source *catalog.Source, o offer, earlier *admitted,
) (list *admitted, err error) {
	err = client.Guard(a.logger.With(slog.String("upstream", source.Upstream)), func() (err error) {
		if o.endpoints == nil {
			list, err = a.admit(ctx, source, o.definitions, earlier.part(0))
		} else {
			list, err = a.admitReplicas(ctx, source, o.endpoints, earlier)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	list.offer = o
	return list, nil
}

// part returns the list of the endpoint at an index; nil if it is not known.
func (l *admitted) part(i int) *admitted {
	switch {
	case l == nil || l.parts == nil:
		return l
	case i < len(l.parts):
		return l.parts[i]
	}
	return nil
}

// admitReplicas admits each endpoint's own list, because calls go to all of them: a prompt is that
// of the first endpoint whose definition is admitted, and only those endpoints whose definition is
// admitted serve it.
func (a *admission) admitReplicas(
	ctx context.Context, source *catalog.Source, endpoints []upstream.EndpointState, earlier *admitted,
) (*admitted, error) {
	m := replicas{endpoints: endpoints, at: map[string]int{}, reportIndex: map[reportKey]int{}}
	m.overridden, m.parts = map[string]bool{}, make([]*admitted, len(endpoints))
	for i, endpoint := range endpoints {
		if !endpoint.Listed {
			continue
		}
		// Most replicas list the same at most times, and admission takes long.
		alike := slices.IndexFunc(endpoints[:i], func(e upstream.EndpointState) bool {
			return e.Listed && slices.EqualFunc(e.Definitions, endpoint.Definitions, sameBytes)
		})
		if alike >= 0 {
			m.parts[i] = m.parts[alike]
		} else {
			part, err := a.admit(ctx, source, endpoint.Definitions, earlier.part(i))
			if err != nil {
				return nil, err
			}
			m.parts[i] = part
		}
		m.add(i, m.parts[i])
	}
	return m.merged(), nil
}

func sameBytes(a, b jsontext.Value) bool { return bytes.Equal(a, b) }

// degrade returns the state of the upstream, with the problem of a prompt that is out of reach.
func (l *admitted) degrade(state *upstream.State) *upstream.State {
	// The connector does not know that an endpoint may not serve what it lists, and takes it for a
	// substitute.
	if l == nil || state.Problem != nil {
		return state
	}
	for _, set := range l.served {
		if problem := problemOf(state.Endpoints, upstream.EndpointSet(set)); problem != nil {
			degraded := *state
			degraded.Problem = problem
			return &degraded
		}
	}
	return state
}

// problemOf returns the problem of the first endpoint of a set, if all of them have one.
func problemOf(endpoints []upstream.EndpointState, set upstream.EndpointSet) (first *upstream.Problem) {
	for i := range endpoints {
		switch problem := endpoints[i].Problem; {
		case !set.Has(i):
		case problem == nil:
			return nil
		case first == nil:
			first = problem
		}
	}
	return first
}

// replicas merges what the admission makes of the lists of several endpoints.
type replicas struct {
	admitted

	endpoints []upstream.EndpointState
	listed    uint64 // the endpoints that were added, a bit for each
	// at has the index of each prompt, by the upstream's own name for it.
	at map[string]int
	// reportedAt are the endpoints that each report is about, and places has the index of each
	// report.
	reportedAt  []uint64
	reportIndex map[reportKey]int
}

// reportKey is equal for two endpoints that are reported for the same.
type reportKey struct {
	kind       catalog.Kind
	name, text string
}

// add adds the list of the endpoint at index i.
func (m *replicas) add(i int, list *admitted) {
	endpoint, known := uint64(1)<<i, len(m.prompts)
	m.listed |= endpoint
	maps.Copy(m.overridden, list.overridden)
	for _, prompt := range list.prompts {
		at, ok := m.at[prompt.Name]
		switch {
		case !ok:
			own := *prompt // the list of the endpoint stays as it is
			own.Endpoints = endpoint
			m.prompts = append(m.prompts, &own)
		case prompt.Overrides.Equal(m.prompts[at].Overrides):
			// Else the arguments that a get sends might not suit it.
			m.prompts[at].Endpoints |= endpoint
		}
	}
	// Only after the whole list, so that its own duplicates stay for the catalog to report.
	for at := known; at < len(m.prompts); at++ {
		if _, ok := m.at[m.prompts[at].Name]; !ok {
			m.at[m.prompts[at].Name] = at
		}
	}
	for _, r := range list.reports {
		key := reportKey{r.Kind, r.Name, r.Text}
		at, ok := m.reportIndex[key]
		if !ok {
			at = len(m.reports)
			m.reportIndex[key] = at
			m.reports, m.reportedAt = append(m.reports, r), append(m.reportedAt, 0)
		}
		m.reportedAt[at] |= endpoint
	}
}

// merged returns the outcome. Reports that are not about all endpoints say which ones they are
// about.
func (m *replicas) merged() *admitted {
	for i := range m.prompts {
		switch p := m.prompts[i]; {
		case bits.OnesCount64(p.Endpoints) == len(m.endpoints):
			p.Endpoints = 0
		case !slices.Contains(m.served, p.Endpoints):
			m.served = append(m.served, p.Endpoints)
		}
	}
	for i := range m.reports {
		if m.reportedAt[i] != m.listed {
			m.locate(&m.reports[i], m.reportedAt[i])
		}
	}
	return &m.admitted
}

// locate adds to a report which endpoints it is about.
func (m *replicas) locate(r *catalog.Report, about uint64) {
	var numbers, addresses []string
	for i, endpoint := range m.endpoints {
		if about&(1<<i) != 0 {
			numbers, addresses = append(numbers, strconv.Itoa(i+1)), append(addresses, endpoint.Address)
		}
	}
	noun := "endpoint"
	if len(numbers) > 1 {
		noun = "endpoints"
	}
	r.Finding += " at " + strings.Join(numbers, ",")
	r.Text = fmt.Sprintf("at %s %s (%s): %s", noun, strings.Join(numbers, ", "), strings.Join(addresses, ", "), r.Text)
	if at, ok := m.at[r.Owners[0].Name]; ok && m.prompts[at].Endpoints != 0 && m.prompts[at].Endpoints&about == 0 {
		r.Text += "; meanwhile the other endpoints serve it"
	}
}
