gateway {
  allowed_hosts = [for n in sort(["b", "a"]) : "${n}.example.com"] # ERROR: No loops here; There is no for; write the values out
}
