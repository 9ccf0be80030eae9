// Command speed compares the gateway with simpler programs: a handler that writes the same bytes, httputil.ReverseProxy and a
// gateway built on the official Go SDK. With -against it compares the gateway with an older build of itself, and with -everything
// one that records all it can with one that records nothing.
//
// Each program is a process of its own. They take turns under the same load, a closed loop on a fixed number of connections,
// and the result is the ratio within one turn: whatever else the machine does slows all of them alike.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// settings are the flags.
type settings struct {
	bin    string
	turns  int
	length time.Duration
	only   *regexp.Regexp
	// profiles is a directory for CPU profiles of the gateway. If it is set, speed measures nothing.
	profiles string
	// against is an older build of the gateway. If it is set, speed compares the two builds and nothing else.
	against string
	pairs   int
	// added is what the new one of two builds has in addition.
	added addition
	// everything says that what is recorded is to be measured, and nothing else.
	everything bool
	// cores are those that the gateway may use, in the syntax of taskset; empty means all.
	cores string
}

func main() {
	s := settings{}
	flag.StringVar(&s.bin, "bin", "bin", "`directory` of the programs promptweir and reference")
	flag.IntVar(&s.turns, "turns", 5, "how many turns each program takes")
	flag.DurationVar(&s.length, "length", 500*time.Millisecond, "how long a turn lasts")
	only := flag.String("only", "", "measure only the cases whose name matches this regular `expression`")
	flag.StringVar(&s.profiles, "profiles", "", "write a CPU profile of the gateway for each case to this `directory`, and measure nothing")
	flag.StringVar(&s.against, "against", "", "compare the gateway with this older `build` of it, and measure nothing else")
	with := flag.String("with", "", "with -against: a `file` with blocks that only the newer build is configured with, to see what they cost")
	flag.BoolVar(&s.everything, "everything", false, "compare the gateway with an audit log, and with traces, logs and metrics exported too, with the same one without, and measure nothing else")
	flag.IntVar(&s.pairs, "pairs", 15, "how often the two gateways of -against or -everything are started and compared")
	flag.StringVar(&s.cores, "cores", "", "run the gateway on these `cores` only, such as 2-3; needs taskset")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *with != "" {
		var blocks []byte
		blocks, err = os.ReadFile(*with)
		s.added.blocks = string(blocks)
	}
	if err == nil {
		s.only, err = regexp.Compile(*only)
	}
	if err == nil {
		err = run(ctx, s)
	}
	if err != nil {
		slog.Error("speed", slog.Any("error", err))
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	if s.everything {
		return compareRecording(ctx, s)
	}
	if s.against != "" {
		return comparePairs(ctx, s)
	}
	if s.profiles == "" {
		fmt.Println(heading())
	}
	for i, c := range cases() {
		if !s.only.MatchString(c.name) {
			continue
		}
		if s.profiles != "" {
			if err := profile(ctx, s, c, filepath.Join(s.profiles, fmt.Sprintf("%02d.pprof", i))); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			continue
		}
		if err := measure(ctx, s, c); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	if s.profiles == "" && s.only.MatchString(startupName) {
		return startup(ctx, s)
	}
	return nil
}

// measure runs a case and prints its rows.
func measure(ctx context.Context, s settings, c benchmark) error {
	st := newStage(s)
	defer st.close()
	contestants, err := c.set(ctx, st)
	if err != nil {
		return err
	}
	rows := make([]row, len(contestants))
	for turn := range s.turns {
		for i := range contestants {
			i = (i + turn) % len(contestants) // each goes first in some turns
			sample, err := contestants[i].take(ctx, c.connections, s.length)
			if err != nil {
				return fmt.Errorf("%s: %w", contestants[i].name, err)
			}
			rows[i] = append(rows[i], sample)
		}
	}
	for i := range contestants {
		fmt.Println(line(c, contestants[i].name, rows[i], rows[len(rows)-1], i == len(rows)-1))
	}
	return nil
}

// profileLength is how long the CPU profile of a case lasts.
const profileLength = 5 * time.Second

// profile puts the gateway of a case under load, with an audit log and one trace in a hundred exported, and writes its CPU profile.
func profile(ctx context.Context, s settings, c benchmark, path string) error {
	st := newStage(s)
	st.flags = []string{"--pprof"}
	defer st.close()
	var err error
	if st.added, _, err = onePercent.addTo(ctx, st); err != nil {
		return err
	}
	contestants, err := c.set(ctx, st)
	if err != nil {
		return err
	}
	admin, err := contestants[0].process.Attr("admin")
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		_, err := contestants[0].take(ctx, c.connections, profileLength+2*time.Second)
		return err
	})
	group.Go(func() error {
		return download(ctx, fmt.Sprintf("%s/debug/pprof/profile?seconds=%.0f", admin, profileLength.Seconds()), path)
	})
	return group.Wait()
}

func download(ctx context.Context, url, path string) error {
	content, err := fetch(ctx, url)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// fetch returns the body of a successful response.
func fetch(ctx context.Context, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return content, err
}
