package inspect

import (
	"slices"

	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/clients"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/files"
)

// ClientLosses returns the losses of each prompt that a principal sees, in the given clients. A nil
// principal selects all prompts that have a reader. A name that is not empty selects one prompt.
func ClientLosses(s *snapshot.Snapshot, principal *policy.Principal, name string, of []clients.Client) (all []clients.Loss) {
	view := s.Catalog.View(func(*catalog.Entry) bool { return true })
	if principal != nil {
		view = s.View(s.Policy.Audience(*principal))
	}
	view = view.Kind(false)
	list := clients.NewList(view, s.Config.Gateway.PageSize)
	for _, entry := range view.Entries() {
		if name != "" && name != entry.Name || principal == nil && !IsVisible(s, entry) {
			continue
		}
		prompt := clients.Prompt{Entry: entry}
		if file := FilePrompt(s, entry.Owners[0]); file != nil {
			// After an error, the result is nil: losses in messages stay unknown.
			prompt.Result, _ = file.Render(file.Sample(entry.Overrides.AddTo(nil)))
		}
		all = append(all, list.Losses(prompt, of)...)
	}
	variants := exslices.CastToString[string](s.Config.Gateway.Variants)
	for i := range all {
		all[i].Remedy = all[i].ForVariants(variants)
	}
	return all
}

// IsVisible reports whether anybody sees an entry.
func IsVisible(s *snapshot.Snapshot, e *catalog.Entry) bool {
	return slices.ContainsFunc(e.Owners, func(o catalog.Owner) bool {
		return len(s.Policy.Readers(e.Team, o.Upstream, e.Name, e.Facts())) > 0
	})
}

// FilePrompt returns an owner's prompt, or nil if the prompt is not from a file. It works even if no
// connector runs.
func FilePrompt(s *snapshot.Snapshot, owner catalog.Owner) *files.Prompt {
	if list := s.Files(owner.Upstream); list != nil {
		return list.Prompt(owner.Name)
	}
	return s.FilePrompt(owner.Upstream, owner.Name)
}
