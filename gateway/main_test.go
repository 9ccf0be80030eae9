package gateway_test

import (
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestMain(m *testing.M) {
	upstreamtest.Main(m, map[string]func(args []string){"requesting": playRequestingServer})
}
