package config

// Config is one checked configuration. After [Load] nobody checks it again, and nobody changes it.
type Config struct {
	Gateway Gateway
	Admin   Admin
	// Audit is nil without an audit block: nothing is recorded.
	Audit *Audit
	// Cluster is nil without a cluster block: the gateway shares nothing with replicas.
	Cluster *Cluster
	// Auth is nil if there is neither an auth block nor a client_ca_file: everyone is anonymous and in every team.
	Auth *Auth
	// Hides are the hide blocks outside of teams, in configuration order.
	Hides []Rule
	// Teams are in configuration order.
	Teams []Team
	// Lock holds the approved definitions; it is empty if no lock attribute asks for them or there is no lock file.
	Lock Lock
	// TeamFiles are the files with teams, as they were written.
	TeamFiles TeamFiles
	// Hash is equal for equal texts of all files, wherever they are: replicas can be compared by it.
	Hash string

	evaluated *evaluated
}

// Upstreams returns the upstreams of all teams in configuration order.
func (c *Config) Upstreams() []Upstream {
	var all []Upstream
	for _, t := range c.Teams {
		all = append(all, t.Upstreams...)
	}
	return all
}
