#!/bin/sh
# After an installation or an upgrade.
set -e
[ -d "${DPKG_ROOT:-}/run/systemd/system" ] || exit 0
systemctl daemon-reload
systemctl try-restart promptweir.service # an upgrade; on a new installation the unit is neither enabled nor started
