package gateway

import (
	"net"
	"testing"
)

func TestDialGuard_RefusesMetadataInEveryForm(t *testing.T) {
	var guard dialGuard
	for _, refused := range []string{
		"169.254.169.254", "fe80::1", "ff02::1", "100.100.100.200", "fd00:ec2::254", "168.63.129.16", "192.0.0.192",
		"::ffff:169.254.169.254", "64:ff9b::169.254.169.254", "64:ff9b::a83f:8110", "2002:a9fe:a9fe::1", "2002:c000:c0::",
		"::169.254.169.254", "::100.100.100.200", "64:ff9b:1::169.254.169.254", "::ffff:0:169.254.169.254", "fd00:ec2::23",
		"fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:100::100:200", "fd00:a9fe:a9fe::1",
	} {
		if guard.check(net.JoinHostPort(refused, "80")) == nil {
			t.Errorf("%s may be dialed", refused)
		}
	}
	for _, allowed := range []string{"127.0.0.1", "::1", "10.0.0.1", "64:ff9b::10.0.0.1", "2002:a00:1::1", "2001:db8::1", "192.0.0.191"} {
		if err := guard.check(net.JoinHostPort(allowed, "80")); err != nil {
			t.Errorf("%s: %v", allowed, err)
		}
	}
}
