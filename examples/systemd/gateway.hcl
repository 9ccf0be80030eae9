# The platform's configuration; each team has a file in teams/. `man promptweir` has the commands, and
# `promptweir validate --config /etc/promptweir` checks a change before it is used.

gateway {
  listen    = "127.0.0.1:8080" # anything but loopback needs an auth block
  state_dir = "/var/lib/promptweir"
}

admin {
  listen = "127.0.0.1:8081"
}
