package extender

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// plainURL is all that an extender's URL may be made of, before it is read: what
// two readers might understand in two ways is left out altogether, such as
// users, escapes, backslashes, white space, and letters that look like others.
var allowedURL = regexp.MustCompile(`^https://[-A-Za-z0-9.:\[\]]+(/[-A-Za-z0-9._~/]*)?$`)

var errURLFormat = errors.New("must be https://HOST[:PORT][/PATH], without a user, a query or a fragment")

// CheckURL says what is wrong with an extender's URL and what would be right. It
// looks nothing up: the address is checked again whenever it is dialled.
func CheckURL(text string) error {
	if scheme, _, found := strings.Cut(text, "://"); found && scheme != "https" {
		return fmt.Errorf("must begin with https://, the scheme is %q", scheme)
	}
	if !allowedURL.MatchString(text) {
		return errURLFormat
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.User != nil || u.Opaque != "" {
		return errURLFormat
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || port[0] == '0' {
			return fmt.Errorf("the port must be from 1 to 65535, is %q", port)
		}
	} else if strings.HasSuffix(u.Host, ":") {
		return errors.New("there is a ':' and no port behind it")
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return fmt.Errorf("the path must not go up or stand still (%q)", segment)
		}
	}
	return checkHost(u.Hostname(), strings.HasPrefix(u.Host, "["))
}

// label is one part of a DNS name.
var dnsLabel = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?$`)

func checkHost(host string, bracketed bool) error {
	address, err := netip.ParseAddr(host)
	if err == nil && address.Is4() != bracketed {
		if is := checkAddress(address); is != "" {
			return fmt.Errorf("the host %s is %s: no extender may be there", host, is)
		}
		return nil
	}
	if bracketed || err == nil {
		return fmt.Errorf("the host %q is not an address: IPv6 stands in brackets, and nothing else does", host)
	}
	if len(host) > 253 {
		return errors.New("the host is longer than 253 characters")
	}
	labels := strings.Split(host, ".")
	for _, l := range labels {
		if !dnsLabel.MatchString(l) {
			return fmt.Errorf("the host %q is not a DNS name: labels of letters, digits and '-', with a '.' between them and none at the end", host)
		}
	}
	last := strings.ToLower(labels[len(labels)-1])
	if _, err := strconv.ParseUint(last, 0, 64); err == nil || allDigits(last) || strings.HasPrefix(last, "0x") {
		// Resolvers read 2130706433, 0x7f.1 and 017700000001 as 127.0.0.1.
		return fmt.Errorf("the host %q ends in a number and is not an IPv4 address of four decimal numbers without leading zeros", host)
	}
	if last == "localhost" {
		return fmt.Errorf("the host %q is this host: no extender may be there", host)
	}
	return nil
}

func allDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }
