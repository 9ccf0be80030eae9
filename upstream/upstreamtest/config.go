package upstreamtest

import (
	"os"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
)

// roleVariable tells the test binary, started as a child process, which role to play.
const roleVariable = "UPSTREAMTEST_ROLE"

// HTTP returns the configuration of an upstream at url, and at replicas of it, with all defaults.
func HTTP(name, url string, replicas ...string) config.Upstream {
	u := defaults(name)
	u.Transport, u.URLs = config.StreamableHTTP, append([]string{url}, replicas...)
	return u
}

// Child returns the configuration of an upstream that is this test binary in a role given to [Main].
func Child(tb testing.TB, name, role string, args ...string) config.Upstream {
	tb.Helper()
	program, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	u := defaults(name)
	u.Transport, u.Command = config.Stdio, append([]string{program}, args...)
	u.Env = map[string]config.Secret{
		roleVariable: config.NewSecret(role),
		"GORACE":     config.NewSecret("atexit_sleep_ms=0"), // else the race detector makes each child linger for a second
	}
	return u
}

func defaults(name string) config.Upstream {
	return config.Upstream{
		Name: name, Team: "team-of-" + name, Protocol: "auto", Prefix: name,
		Timeout: config.DefaultTimeout, Refresh: config.DefaultRefresh, Concurrency: config.DefaultConcurrency, Attempts: config.DefaultAttempts,
		MaxPrompts: config.DefaultMaxPrompts, MaxMessage: config.DefaultMaxMessage,
		Breaker: config.Breaker{Failures: config.DefaultBreakerFailures, Cooldown: config.DefaultBreakerCooldown},
	}
}

// Main runs the tests, or a role where the binary was started as a [Child]. To be called from TestMain.
func Main(m *testing.M, roles map[string]func(args []string)) {
	if role, ok := os.LookupEnv(roleVariable); ok {
		roles[role](os.Args[1:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// eventually is how long [Eventually] waits: long enough for a machine that does other things as well.
const eventually = 20 * time.Second

// Eventually waits until a condition holds, and fails the test where it never does.
func Eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(eventually); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("waited %s in vain: %s", eventually, what)
		}
	}
}
