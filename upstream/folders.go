package upstream

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/session"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// pollInterval is the time between checks of a team's files. Unlike file system events, polling
	// detects changes through links, on network file systems and in mounted ConfigMaps.
	pollInterval = 400 * time.Millisecond
	// restFactor is the pause after a pass, as a multiple of the pass's duration. Thus a folder on
	// a slow disk takes at most a tenth of one processor.
	restFactor = 10
)

// Folders reads the prompt files of all teams. One goroutine per team and folder reads them for all
// of the team's upstreams. It is safe for concurrent use.
type Folders struct {
	mu    sync.Mutex                // guards teams and their members
	teams map[[2]string]*teamFolder // by team and folder: in the command try, one team has several folders
}

// NewFolders returns a Folders that reads nothing until a connector with files runs.
func NewFolders() *Folders { return &Folders{teams: map[[2]string]*teamFolder{}} }

// teamFolder is one folder of a team. Its members are the team's upstreams with files in this
// folder. One goroutine reads the files for all members.
type teamFolder struct {
	members []*folder     // in the order in which they joined
	joined  session.Mark  // is set when a member has joined
	end     func()        // ends the goroutine
	ended   chan struct{} // closed when the goroutine has ended
}

// run reads a folder's files until ctx ends.
func (fs *Folders) run(ctx context.Context, f *folder) {
	t := fs.join(ctx, f)
	<-ctx.Done()
	if fs.leave(f, t) {
		t.end()
		<-t.ended
	}
}

func (fs *Folders) join(ctx context.Context, f *folder) *teamFolder {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	t := fs.teams[f.key()]
	if t == nil {
		ctx, end := context.WithCancel(context.WithoutCancel(ctx)) // the first member may leave before the others
		t = &teamFolder{joined: make(session.Mark, 1), end: end, ended: make(chan struct{})}
		fs.teams[f.key()] = t
		go fs.read(ctx, t)
	}
	// After a reload, the connector that f replaces may still run. Remove it: it answers from its
	// last list and needs no updates.
	t.members = slices.DeleteFunc(t.members, func(m *folder) bool { return m.upstream.Name == f.upstream.Name })
	t.members = append(t.members, f)
	t.joined.Set()
	return t
}

// leave removes a member, and reports whether no members are left.
func (fs *Folders) leave(f *folder, t *teamFolder) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	t.members = slices.DeleteFunc(t.members, func(m *folder) bool { return m == f })
	if len(t.members) > 0 {
		return false
	}
	// A member that join replaced may leave after the team got a new teamFolder.
	if fs.teams[f.key()] == t {
		delete(fs.teams, f.key())
	}
	return true
}

// read reads the files of a team's folder until ctx ends: periodically, and as soon as a member
// joins.
func (fs *Folders) read(ctx context.Context, t *teamFolder) {
	defer close(t.ended)
	var team files.Team
	for rest := pollInterval; ; {
		select {
		case <-t.joined:
		case <-time.After(rest):
		case <-ctx.Done():
			return
		}
		begun := time.Now()
		if members := fs.members(t); len(members) > 0 {
			pass(ctx, &team, members)
		}
		rest = max(pollInterval, restFactor*time.Since(begun))
	}
}

// members returns the members whose files have the same source as the last member's. Members with
// another source were replaced by a reload and are about to end.
func (fs *Folders) members(t *teamFolder) []*folder {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(t.members), func(m *folder) bool {
		return !m.upstream.Files.SameSource(t.members[len(t.members)-1].upstream.Files)
	})
}

// pass reads the changed files and updates the members.
func pass(ctx context.Context, team *files.Team, members []*folder) {
	results, err := team.Refresh(ctx, exslices.CastFunc(members, func(m *folder) config.Upstream { return m.upstream }))
	if err != nil {
		return // ctx has ended
	}
	for i, m := range members {
		m.update(ctx, results[i].List, results[i].Err)
	}
}

// folder serves an upstream whose prompts are files.
type folder struct {
	upstream config.Upstream
	logger   *slog.Logger
	onChange func()
	folders  *Folders
	state    atomic.Pointer[State] // only the goroutine of Folders.read writes it
}

func newFolder(u config.Upstream, logger *slog.Logger, onChange func()) *folder {
	f := &folder{upstream: u, logger: logger, onChange: onChange, folders: NewFolders()}
	f.state.Store(&State{})
	return f
}

// key identifies the folder in [Folders.teams].
func (f *folder) key() [2]string { return [2]string{f.upstream.Team, f.upstream.Files.Folder} }

// update publishes the state after a pass, if the state has changed.
func (f *folder) update(ctx context.Context, list *files.List, err error) {
	if next := f.next(list, err); next != nil {
		f.log(ctx, f.state.Swap(next), next)
		f.onChange()
	}
}

// next returns the state after a pass, or nil if nothing has changed.
func (f *folder) next(list *files.List, err error) *State {
	before := f.state.Load()
	next := *before
	next.Tried, next.Listed, next.Connected = true, before.Listed || err == nil, err == nil
	next.FileProblems = list.Problems
	problem, isProblem := errors.AsType[files.Problem](err)
	switch broken := list.Broken(); {
	case isProblem:
		next.FileProblems = append(slices.Clip(list.Problems), problem)
		next.Problem = f.since(session.ListRefused, problem)
	case len(broken) > 0:
		next.Problem = f.since(session.InvalidFile, broken[0])
	default:
		next.Problem = nil
	}
	if err == nil {
		next.Files = list
	}
	if next.Listed {
		next.SetPrompts(list.Definitions)
	}
	if before.Tried && before.Listed == next.Listed && before.Files == next.Files && before.Problem == next.Problem &&
		slices.Equal(before.FileProblems, next.FileProblems) {
		return nil
	}
	return &next
}

// since returns the problem with the reason and error. If the current problem has both, it returns
// the current problem. If only the reason is the same, the new problem begins when the current one
// began.
func (f *folder) since(reason Reason, problem files.Problem) *Problem {
	next := &Problem{Reason: reason, Since: time.Now(), Err: problem}
	if now := f.state.Load().Problem; now != nil && now.Reason == reason {
		if errors.Is(now.Err, problem) {
			return now
		}
		next.Since = now.Since
	}
	return next
}

// maxLogged bounds the log records about files after one pass.
const maxLogged = 20

// log logs newly broken files, and for each file the first misspelt key or text that looks like template syntax.
// The catalog reports partly served files, and the command validate shows all other findings.
func (f *folder) log(ctx context.Context, before, after *State) {
	logged, earlier, isLogged := 0, map[files.Problem]bool{}, map[string]bool{}
	for _, p := range before.FileProblems {
		earlier[p] = true
	}
	for _, p := range after.FileProblems {
		isMistake := p.Summary == files.BracesAreText || p.Summary == files.MisspeltKey
		if p.Severity != files.Broken && !isMistake || earlier[p] || isMistake && isLogged[p.Path] {
			continue
		}
		isLogged[p.Path] = true
		if logged++; logged > maxLogged {
			f.logger.WarnContext(ctx, "further prompt files have mistakes, correct those above first")
			break
		}
		logger := f.logger.With(slog.String("place", p.Place()), slog.String("problem", p.Detail))
		if isMistake {
			logger.WarnContext(ctx, "probably a mistake in a prompt file")
		} else {
			logger.WarnContext(ctx, "prompt file broken")
		}
	}
	switch {
	case before.Problem != nil && after.Problem == nil:
		f.logger.InfoContext(ctx, "upstream healthy")
	case before.Lists != after.Lists:
		f.logger.InfoContext(ctx, "prompt files read", slog.Int("prompts", len(after.Definitions)))
	}
}

// call answers a request from the list in the request, even if the folder has a newer list, because
// a definition is approved together with its text.
func (f *folder) call(request *Request) (Result, error) {
	if request.Files == nil {
		return Result{}, &Unavailable{Upstream: f.upstream.Name, Reason: client.Unreachable, RetryAfter: pollInterval, Err: errNotRead}
	}
	if request.Method == wire.ResourcesRead {
		result, err := request.Files.ReadSkill(f.upstream.Files, request.Name)
		if err != nil {
			return Result{}, &Unavailable{Upstream: f.upstream.Name, Reason: session.InvalidFile, Err: err}
		}
		return Result{JSON: result, Revision: wire.LatestLegacy}, nil
	}
	name := request.Name
	if request.Method == wire.Complete {
		name, _ = request.Params.Object("ref").Text("name")
	}
	prompt := request.Files.Prompt(name)
	if prompt == nil { // the state_dir had the definition, but its file is gone
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
