package console

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// maxForm bounds what a form sends, in bytes.
const maxForm = 64 << 10

// entrance is what the page that asks for the token needs.
type entrance struct {
	// Next is the path of the page to show afterwards.
	Next string
	// Refused is set after a token that is not the right one. Wait is how many seconds to wait
	// after one that was not looked at.
	Refused bool
	Wait    int
}

// askForToken shows the page that asks for the token.
func (c *console) askForToken(r *http.Request, p *page) error {
	next := localPath(r.FormValue("next"))
	if c.operators.Include(r) { // signed in already, or there is nothing to sign in with
		return &redirectError{next}
	}
	p.Name, p.Title, p.Content = "sign-in", "Sign in", &entrance{Next: next}
	return nil
}

// signIn begins a session, or asks again.
func (c *console) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	next := localPath(r.PostFormValue("next"))
	if ok, wait := c.operators.SignIn(w, r, strings.TrimSpace(r.PostFormValue("token"))); !ok {
		status := http.StatusForbidden
		if wait > 0 {
			status = http.StatusTooManyRequests
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		}
		c.write(w, status, &page{
			Name: "sign-in", Title: "Sign in", Exposed: c.operators.Exposed(r),
			HasToken: c.operators.HaveToken(),
			Content: &entrance{
				Next: next, Refused: wait == 0,
				Wait: int(math.Ceil(wait.Seconds())),
			},
		})
		return
	}
	if c.operators.Exposed(r) {
		c.opts.Logger.WarnContext(r.Context(),
			"operator signed in over an unencrypted connection: put a proxy with TLS in front of the admin listener",
			slog.String("client", c.operators.Client(r)))
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// signOut ends the session.
func (c *console) signOut(w http.ResponseWriter, r *http.Request) {
	c.operators.SignOut(w, r)
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
}

// localPath returns a path of the console, "/" in place of all that might lead elsewhere.
func localPath(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") ||
		strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}

// acts lets an operator do something with a button, and shows the page again on which it was, or
// why it failed. Act may return a fragment, the part of that page to scroll to.
func (c *console) acts(act func(ctx context.Context, r *http.Request) (fragment string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next := localPath(r.PostFormValue("next"))
		fragment, err := act(context.WithoutCancel(r.Context()), r)
		if err != nil {
			p := &page{
				Name: "problem", Title: "This failed", Version: c.view.Version(),
				SignedIn: c.operators.HasSession(r), Exposed: c.operators.Exposed(r),
				Content: err.Error(), URI: next,
			}
			c.write(w, http.StatusUnprocessableEntity, p)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, next+fragment, http.StatusSeeOther)
	}
}

// reload loads the configuration again. Why it was refused is on the page, which scrolls there.
func (c *console) reload(ctx context.Context, r *http.Request) (fragment string, err error) {
	err = c.opts.Reload(ctx, c.operators.Client(r))
	if err != nil && c.view.Configuration().Refused != nil {
		return "#configuration", nil
	}
	return "", err
}

// drain takes an upstream out of service, or lets it serve again.
func (c *console) drain(ctx context.Context, r *http.Request) (fragment string, err error) {
	_, err = c.opts.SetDrained(ctx, c.operators.Client(r), r.PostFormValue("upstream"),
		r.PostFormValue("drained") == "true")
	return "", err
}
