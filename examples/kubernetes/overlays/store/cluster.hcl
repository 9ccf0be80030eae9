# A file of the platform beside gateway.hcl. The store gets hashes with a secret key, no names. The password passes in clear, to a
# pod that the network policy lets nobody else reach. With TLS, "rediss://…" and a tls block.

cluster {
  store     = "redis://:${urlencode(trimspace(file("../secrets/promptweir-store/password")))}@promptweir-store:6379"
  advertise = "http://${env("POD_IP")}:8080" # with IPv6, "http://[${env("POD_IP")}]:8080"
}
