# The payments team's server runs in a namespace of the team.

team "payments" {
  members = ["group:payments"]

  upstream "billing" {
    url     = "http://billing.payments.svc.cluster.local/mcp"
    headers = { Authorization = "Bearer ${trimspace(file("../../secrets/team-payments/token"))}" }
  }
}
