package main

import (
	"log/slog"

	systemd "github.com/coreos/go-systemd/v22/daemon"
)

// serviceManager is what started the process, if it wants to know how that fares: systemd, for a unit with Type=notify
// (sd_notify(3)). To any other, nothing is sent.
type serviceManager struct{ logger *slog.Logger }

// ready says that the gateway serves, at first or again after a reload.
func (m serviceManager) ready() { m.send(systemd.SdNotifyReady) }

// reloading says that a reload has begun. Ready must follow, whether it succeeds or not.
func (m serviceManager) reloading() { m.send(systemd.SdNotifyReloading) }

// stopping says that the end has begun.
func (m serviceManager) stopping() { m.send(systemd.SdNotifyStopping) }

func (m serviceManager) send(state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		m.logger.Warn("service manager not told", slog.String("state", state), slog.Any("error", err))
	}
}
