gateway {
  allowed_hosts = [for n in sort(["b", "a"]) : "${n}.example.com"]
}
