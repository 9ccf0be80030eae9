package examples_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// claims are the promises of README's first screen by their titles, each with the tests that hold it.
var claims = map[string][]string{ //nolint:gochecknoglobals // a constant table
	"Policy as code": {"gateway TestVisibility_AgreesInListGetCompletionAndNotification", "gateway TestVisibility_HiddenLooksAbsentForEachReason"},
	"Single sign-on": {
		"gateway/transport TestAuthenticate_RefusalNamesTheProvider", "gateway/identity TestFromHeader_AuthenticatesTheSender",
		"cmd/promptweir TestServe_AuthenticatesClientCertificates",
	},
	"Approval and screens, if you turn them on": {
		"gateway/publish TestAdmission_LeavesOutWhatTheLockDoesNotApprove", "gateway/screen TestResult_FindsInvisibleCharacters",
		"config TestLoad_GivesDefaultsForAnEmptyFile",
	},
	"True notifications": {
		"gateway/publish TestSubscription_NotifiesAfterTheNewListCanBeRead", "gateway/publish TestSubscription_NotifiesOnlyAffectedAudiences",
	},
	"Nothing lost": {"gateway TestLossless_MessagesArriveUnchanged", "gateway TestFiles_AreServedInAllRevisions"},
	"Skills too":   {"gateway TestSkills_AreListedGotAndReadInBothEras", "gateway TestSkills_AreServedFromFiles"},
	"Isolation": {
		"config TestLoadTolerant_OneTeamsErrorHoldsUpNobodyElse", "gateway TestReload_ATeamsMistakeHoldsUpNobodyElse",
		"upstream TestConnector_ATeamsDeadServersDelayOnlyItsOwn",
	},
}

func TestReadme_EachClaimHasATest(t *testing.T) {
	_, list, _ := strings.Cut(text(t, "../README.md"), "\n- **")
	list, _, _ = strings.Cut("\n- **"+list, "\n\n")
	titles := regexp.MustCompile(`(?m)^- \*\*(.*?)\.\*\*`).FindAllStringSubmatch(list, -1)
	if len(titles) < 5 {
		t.Fatalf("%d claims, want at least 5", len(titles))
	}
	for _, title := range titles {
		if len(claims[title[1]]) == 0 {
			t.Errorf("README claims %q, and no test is named that holds it", title[1])
		}
	}
	for title, tests := range claims {
		for _, named := range tests {
			folder, name, _ := strings.Cut(named, " ")
			files, _ := filepath.Glob(filepath.Join("..", filepath.FromSlash(folder), "*_test.go"))
			if !slices.ContainsFunc(files, func(file string) bool { return strings.Contains(text(t, file), "\nfunc "+name+"(") }) {
				t.Errorf("%s: there is no test %s in %s", title, name, folder)
			}
		}
	}
}
