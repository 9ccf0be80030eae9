package console

import (
	"context"
	"net/http"
)

// acts lets an operator do something with a button, and shows the page again on which it was, or why it failed. Act may lead to a place
// on that page.
func (c *console) acts(act func(ctx context.Context, r *http.Request) (place string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next := localPath(r.PostFormValue("next"))
		place, err := act(context.WithoutCancel(r.Context()), r)
		if err != nil {
			p := &page{
				Name: "problem", Title: "This failed", Version: c.Version(), SignedIn: c.HasSession(r), Exposed: c.Exposed(r),
				Content: err.Error(), URI: next,
			}
			c.write(w, http.StatusUnprocessableEntity, p)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, next+place, http.StatusSeeOther)
	}
}

// reload loads the configuration again. Why it was refused is on the page, which scrolls there.
func (c *console) reload(ctx context.Context, r *http.Request) (place string, err error) {
	err = c.Reload(ctx, c.Client(r))
	if err != nil && c.Configuration().Refused != nil {
		return "#configuration", nil
	}
	return "", err
}

// drain takes an upstream out of service, or lets it serve again.
func (c *console) drain(ctx context.Context, r *http.Request) (place string, err error) {
	_, err = c.SetDrained(ctx, c.Client(r), r.PostFormValue("upstream"), r.PostFormValue("drained") == "true")
	return "", err
}
