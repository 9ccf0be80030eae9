# A file of the platform beside gateway.hcl. Whatever pods share is sealed with the cursor keys, or a hash with their key; the password
# itself passes in clear, to a pod that the network policy lets nobody else reach. With TLS, "rediss://…" and a tls block.

cluster {
  store = "redis://:${urlencode(trimspace(file("../secrets/promptweir-store/password")))}@promptweir-store:6379"
}
