package show

import (
	"fmt"
	"strings"

	"github.com/berthdev/berth/api/v1alpha1"
)

// DeviceRequests returns a paragraph that says what each request for devices finds; "" for none.
func DeviceRequests(requests []v1alpha1.DeviceRequestCounts) string {
	if len(requests) == 0 {
		return ""
	}
	text := "\nRequests for devices:\n"
	for _, r := range requests {
		if r.Claim == "" { // the summary of more requests
			text += "- " + r.Request + "\n"
			continue
		}
		wanted := "all devices"
		if r.Count > 0 {
			wanted = Count(int(r.Count), "device")
		}
		parts := []string{fmt.Sprintf("%d published", r.Published)}
		for _, s := range r.Selectors {
			parts = append(parts, fmt.Sprintf("%d match %s of the %s", s.Matching, s.Expression, strings.ToLower(string(s.Source))))
		}
		parts = append(parts, fmt.Sprintf("%d free", r.Free))
		text += Wrap(fmt.Sprintf("- %s/%s: %s of class %s: %s", r.Claim, r.Request, wanted, r.DeviceClassName, strings.Join(parts, "; ")), "  ", "  ") + "\n"
	}
	return text
}
