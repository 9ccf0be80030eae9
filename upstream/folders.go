package upstream

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/health"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// pollInterval is how often a team's folder is read. Reading, unlike events of the file system,
	// sees changes behind links, on network file systems and in mounted ConfigMaps alike.
	pollInterval = 400 * time.Millisecond
	// maxPollInterval bounds the time until the next pass after slow ones, and after those that
	// failed.
	maxPollInterval = 30 * time.Second
	// workShare is the part of one processor, one in so many, that the passes of one team get,
	// beyond what they saved by resting: at most savedWork, so that a start, and a change of many
	// files, need not wait.
	workShare = 20
	savedWork = 3 * time.Second
	// leastRest bounds the pauses of a pass from below.
	leastRest = 20 * time.Millisecond
)

// Folders are the folders of all teams that have prompts in files. In each, one pass at a time
// serves all of the team's upstreams. It is safe for concurrent use.
type Folders struct {
	mu    sync.Mutex // guards teams with their members, and paces
	teams map[string]*teamFolder
	paces map[string]*pace
}

// NewFolders returns folders that nobody reads yet.
func NewFolders() *Folders {
	return &Folders{teams: map[string]*teamFolder{}, paces: map[string]*pace{}}
}

// teamFolder is the folder of one team. One of its upstreams leads: its goroutine reads for all,
// until it ends.
type teamFolder struct {
	members []*folder   // in the order in which they came
	lead    health.Mark // is there while nobody leads
	came    health.Mark // is there after a member came that the leader may not know

	// The rest belongs to the leader.

	files  files.Team
	pace   *pace
	failed int // passes in a row
}

// run reads for a folder, until ctx ends.
func (fs *Folders) run(ctx context.Context, f *folder) {
	t := fs.join(f)
	defer fs.leave(f, t)
	select {
	case <-t.lead:
	case <-ctx.Done():
		return
	}
	defer t.lead.Set()
	for ctx.Err() == nil {
		wait := t.pass(ctx, fs.members(t))
		select {
		case <-t.came:
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

func (fs *Folders) join(f *folder) *teamFolder {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	t := fs.teams[f.upstream.Team]
	if t == nil {
		t = &teamFolder{lead: make(health.Mark, 1), came: make(health.Mark, 1), pace: fs.paceLocked(f.upstream.Team)}
		t.lead.Set()
		fs.teams[f.upstream.Team] = t
	}
	// After a reload, the connector that this one replaces may still answer what was asked before.
	t.members = slices.DeleteFunc(t.members, func(m *folder) bool { return m.upstream.Name == f.upstream.Name })
	t.members = append(t.members, f)
	t.came.Set()
	return t
}

// paceLocked returns the pace of a team. It outlives the team's folder, since a team that comes and
// goes would otherwise get its credit anew each time.
func (fs *Folders) paceLocked(team string) *pace {
	maps.DeleteFunc(fs.paces, func(team string, p *pace) bool { return fs.teams[team] == nil && p.isWhole() })
	if fs.paces[team] == nil {
		fs.paces[team] = &pace{credit: savedWork}
	}
	return fs.paces[team]
}

func (fs *Folders) leave(f *folder, t *teamFolder) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	t.members = slices.DeleteFunc(t.members, func(m *folder) bool { return m == f })
	// One that join replaced may leave after the last member did, when the team has a new folder.
	if len(t.members) == 0 && fs.teams[f.upstream.Team] == t {
		delete(fs.teams, f.upstream.Team)
	}
}

// members returns those that have the same source as the last one: by a reload, those before are
// about to end.
func (fs *Folders) members(t *teamFolder) []*folder {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(t.members), func(m *folder) bool {
		return !m.upstream.Files.SameSource(t.members[len(t.members)-1].upstream.Files)
	})
}

// pass reads what has changed, and returns the time until the next pass.
func (t *teamFolder) pass(ctx context.Context, members []*folder) time.Duration {
	if len(members) == 0 { // the leader is about to end
		return maxPollInterval
	}
	upstreams := make([]config.Upstream, len(members))
	for i, m := range members {
		upstreams[i] = m.upstream
	}
	begun := time.Now()
	t.pace.rested(begun)
	results, done, err := t.files.Refresh(ctx, upstreams, t.pace.step)
	if err != nil {
		return 0 // ctx has ended
	}
	failed := !slices.ContainsFunc(results, func(r files.Result) bool { return r.Err == nil })
	for i, m := range members {
		m.update(ctx, results[i].List, results[i].Err)
	}
	// What was done since the last step is work, not rest: a list for each of many upstreams.
	if t.pace.step(ctx) != nil || !done {
		// The pace has made the pass wait already.
		return 0
	}
	if t.failed++; !failed {
		t.failed = 0
	}
	return min(max(pollInterval<<min(t.failed, 10), time.Since(begun)), maxPollInterval)
}

// pace keeps the passes of a team to their share of a processor. It is safe for concurrent use.
type pace struct {
	mu      sync.Mutex    // guards what follows
	credit  time.Duration // of work
	settled time.Time
}

// step subtracts the work since the last call from the credit, and waits where none is left.
func (p *pace) step(ctx context.Context) error {
	p.mu.Lock()
	now := time.Now()
	p.credit -= now.Sub(p.settled)
	p.settled = now
	wait := -p.credit * workShare
	p.mu.Unlock()
	if wait > leastRest {
		if err := sleep(ctx, wait); err != nil {
			return err
		}
		p.rested(time.Now())
	}
	return ctx.Err()
}

// rested adds to the credit for a rest that ends now.
func (p *pace) rested(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.settled.IsZero() {
		p.credit = min(p.credit+now.Sub(p.settled)/workShare, savedWork)
	}
	p.settled = now
}

// isWhole reports whether a rest that ends now leaves all the credit that there may be.
func (p *pace) isWhole() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.credit+time.Since(p.settled)/workShare >= savedWork
}

// folder serves an upstream whose prompts are files.
type folder struct {
	upstream config.Upstream
	logger   *slog.Logger
	// publish receives each new state.
	publish func(*State)
	folders *Folders
	state   *State // for the goroutine that reads the team's files
}

func newFolder(u config.Upstream, logger *slog.Logger, publish func(*State)) *folder {
	return &folder{upstream: u, logger: logger, publish: publish, folders: NewFolders()}
}

// starting returns the state before the files have been read.
func (f *folder) starting() *State {
	f.state = &State{}
	return f.state
}

// update publishes what a pass made of the files, unless it is known.
func (f *folder) update(ctx context.Context, list *files.List, err error) {
	if next := f.next(list, err); next != nil {
		f.log(ctx, f.state, next)
		f.state = next
		f.publish(next)
	}
}

// next returns the state that follows from a pass, or nil if it is the present one.
func (f *folder) next(list *files.List, err error) *State {
	next := *f.state
	next.Tried, next.Listed, next.Connected = true, f.state.Listed || err == nil, err == nil
	next.FileProblems = list.Problems
	problem, isProblem := errors.AsType[files.Problem](err)
	switch broken := list.Broken(); {
	case isProblem:
		next.FileProblems = append(slices.Clip(list.Problems), problem)
		next.Problem = f.since(ListRefused, problem)
	case len(broken) > 0:
		next.Problem = f.since(InvalidFile, broken[0])
	default:
		next.Problem = nil
	}
	if err == nil {
		next.Files = list
	}
	if next.Listed {
		next.setPrompts(list.Definitions)
	}
	before := f.state
	if before.Tried && before.Listed == next.Listed && before.Files == next.Files && before.Problem == next.Problem &&
		slices.Equal(before.FileProblems, next.FileProblems) {
		return nil
	}
	return &next
}

// since returns the present problem if it is of the same kind, or else a new one.
func (f *folder) since(reason Reason, problem files.Problem) *Problem {
	next := &Problem{Reason: reason, Since: time.Now(), Err: problem}
	if now := f.state.Problem; now != nil && now.Reason == reason {
		if errors.Is(now.Err, problem) {
			return now
		}
		next.Since = now.Since
	}
	return next
}

// maxLogged bounds the problems that are logged at once.
const maxLogged = 20

// log logs the files that are newly broken. What is served in part is one report of the catalog,
// and validate shows the rest.
func (f *folder) log(ctx context.Context, before, after *State) {
	logged, known := 0, map[files.Problem]bool{}
	for _, p := range before.FileProblems {
		known[p] = true
	}
	for _, p := range after.FileProblems {
		if p.Severity != files.Broken || known[p] {
			continue
		}
		if logged++; logged > maxLogged {
			f.logger.WarnContext(ctx, "further prompt files broken, see promptweir validate")
			break
		}
		f.logger.WarnContext(ctx, "prompt file broken", slog.String("place", p.Place()), slog.String("problem", p.Detail))
	}
	switch {
	case before.Problem != nil && after.Problem == nil:
		f.logger.InfoContext(ctx, "upstream healthy")
	case before.Lists != after.Lists:
		f.logger.InfoContext(ctx, "prompt files read", slog.Int("prompts", len(after.Definitions)))
	}
}

// call answers a get or a completion from the list that the request names, never from one that was
// read later: a definition is approved with its text.
func (f *folder) call(request *Request) (Result, error) {
	if request.Files == nil {
		return Result{}, unavailable(f.upstream.Name, Unreachable, pollInterval, errNotRead)
	}
	if request.Method == wire.ResourcesRead {
		result, err := request.Files.ReadSkill(f.upstream.Files, request.Name)
		if err != nil {
			return Result{}, unavailable(f.upstream.Name, InvalidFile, 0, err)
		}
		return Result{JSON: result, Revision: wire.LatestLegacy}, nil
	}
	name := request.Name
	if request.Method == wire.Complete {
		name, _ = request.Params.Object("ref").Text("name")
	}
	prompt := request.Files.Prompt(name)
	if prompt == nil { // of a list that was kept from before the start, and is not the folder's any more
		return Result{}, wire.NewError(wire.InvalidParams, "Unknown prompt: "+name)
	}
	result, err := answer(prompt, request)
	return Result{JSON: result, Revision: wire.LatestLegacy}, err
}

func answer(prompt *files.Prompt, request *Request) (jsontext.Value, error) {
	if request.Method == wire.Complete {
		argument := request.Params.Object("argument")
		name, _ := argument.Text("name")
		start, _ := argument.Text("value")
		return prompt.Complete(name, start), nil
	}
	return prompt.Render(request.Params.Object("arguments"))
}

var errNotRead = errors.New("the files have not been read yet")
