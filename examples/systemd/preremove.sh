#!/bin/sh
# Before a removal; an upgrade says so in its argument: "upgrade" (deb), 1 (rpm).
set -e
[ -d "${DPKG_ROOT:-}/run/systemd/system" ] || exit 0
case "$1" in
	upgrade | 1) ;;
	*) systemctl --no-reload disable --now promptweir.service ;;
esac
