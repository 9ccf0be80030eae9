package clustertest

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// memory is a store in the test's process.
type memory struct {
	redis *miniredis.Miniredis // nil while no store runs

	mu     sync.Mutex // guards the fields below
	starts int
	paused chan struct{} // closed by resume; nil unless the store is paused
	// settings contains the values of CONFIG SET.
	settings map[string]string
}

func (m *memory) start(_ testing.TB, port int) error {
	m.mu.Lock()
	m.starts++
	m.mu.Unlock()
	m.redis = miniredis.NewMiniRedis()
	m.redis.ClockTTL(true)
	if err := m.redis.StartAddr("127.0.0.1:" + strconv.Itoa(port)); err != nil {
		return err
	}
	m.redis.Server().SetPreHook(m.answer)
	return nil
}

func (m *memory) kill() {
	m.resume() // Close waits for paused commands
	if m.redis != nil {
		m.redis.Close()
		m.redis = nil
	}
}

func (m *memory) pause() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused = make(chan struct{})
}

func (m *memory) resume() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.paused != nil {
		close(m.paused)
		m.paused = nil
	}
}

// answer answers the commands to which miniredis responds differently from a server.
func (m *memory) answer(c *server.Peer, command string, args ...string) (done bool) {
	m.mu.Lock()
	paused := m.paused
	m.mu.Unlock()
	if paused != nil {
		<-paused
	}
	switch {
	case command == "HELLO":
		// Refuse RESP3, which clients would choose: with it, miniredis accepts no commands during a
		// subscription.
		c.WriteError("ERR unknown command 'HELLO'")
	case command == "CLUSTER":
		c.WriteError("ERR This instance has cluster support disabled")
	case command == "INFO" && len(args) == 1:
		m.mu.Lock()
		defer m.mu.Unlock()
		c.WriteBulk(fmt.Sprintf("run_id:%d\r\nmaxmemory:%s\r\nmaxmemory_policy:%s\r\n",
			m.starts, m.settings["maxmemory"], m.settings["maxmemory-policy"]))
	case command == "CONFIG" && len(args) == 3 && strings.EqualFold(args[0], "SET"):
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.settings == nil {
			m.settings = map[string]string{}
		}
		m.settings[args[1]] = args[2]
		c.WriteOK()
	default:
		return false
	}
	return true
}
