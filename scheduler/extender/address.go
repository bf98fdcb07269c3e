package extender

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// forbiddenPrefixes are the addresses that no extender may have, and why. Private
// ranges are allowed: Services of a cluster have such addresses.
var forbiddenPrefixes = []struct {
	prefix netip.Prefix
	is     string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "an unspecified address"}, // which connects to this host
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address"},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address, where clouds keep their metadata"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address"}, // the broadcast address, too
	// Cloud metadata addresses outside the link-local range.
	{netip.MustParsePrefix("100.100.100.200/32"), "a cloud's metadata address"},
	{netip.MustParsePrefix("192.0.0.192/32"), "a cloud's metadata address"},
	{netip.MustParsePrefix("168.63.129.16/32"), "a cloud's metadata address"},
	{netip.MustParsePrefix("fd00:ec2::/32"), "a cloud's metadata address"},
	{netip.MustParsePrefix("fd20:ce::254/128"), "a cloud's metadata address"},

	{netip.MustParsePrefix("::/128"), "an unspecified address"},
	{netip.MustParsePrefix("::1/128"), "a loopback address"},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address"},
	{netip.MustParsePrefix("fec0::/10"), "a site-local address"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
}

// embeddedIPv4 are the IPv6 prefixes whose addresses embed an IPv4 address, and the
// offset of its first byte. Packets go to the embedded address.
var embeddedIPv4 = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("::/96"), 12},           // IPv4-compatible
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12}, // IPv4-translated (SIIT)
	{netip.MustParsePrefix("64:ff9b::/96"), 12},    // NAT64
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12},  // NAT64 of a site, with a prefix of 96 bits
	{netip.MustParsePrefix("2002::/16"), 2},        // 6to4
}

// teredo addresses embed an IPv4 address with all bits inverted.
var teredo = netip.MustParsePrefix("2001::/32")

// checkAddress returns why an extender may not have an address, "" when it may.
func checkAddress(address netip.Addr) string {
	address = address.Unmap().WithZone("")
	for _, f := range forbiddenPrefixes {
		if f.prefix.Contains(address) {
			return f.is
		}
	}
	if inner, ok := embeddedAddress(address); ok {
		if is := checkAddress(inner); is != "" {
			return is + " inside of an IPv6 address"
		}
	}
	return ""
}

// IsAddress reports whether text is an IP address.
func IsAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// embeddedAddress returns the IPv4 address that an IPv6 address embeds.
func embeddedAddress(address netip.Addr) (inner netip.Addr, ok bool) {
	if !address.Is6() {
		return netip.Addr{}, false
	}
	bytes := address.As16()
	for _, c := range embeddedIPv4 {
		if c.prefix.Contains(address) {
			return netip.AddrFrom4([4]byte(bytes[c.at : c.at+4])), true
		}
	}
	if teredo.Contains(address) {
		turned := ^binary.BigEndian.Uint32(bytes[12:])
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, turned))), true
	}
	return netip.Addr{}, false
}

// allowedURL restricts the characters of an extender's URL before it is parsed. It
// excludes what two parsers might understand in different ways: user info, escapes,
// backslashes, white space and non-ASCII letters.
var allowedURL = regexp.MustCompile(`^https://[-A-Za-z0-9.:\[\]]+(/[-A-Za-z0-9._~/]*)?$`)

var errURLFormat = errors.New("must be https://HOST[:PORT][/PATH], without a user, a query or a fragment")

// CheckURL returns an error that says how to correct an extender's URL. It does not look
// up the host: the address is checked whenever it is dialled.
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
		return errors.New("there is no port after the ':'")
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return fmt.Errorf("the path must not contain the segment %q", segment)
		}
	}
	return checkHost(u.Hostname(), strings.HasPrefix(u.Host, "["))
}

// dnsLabel matches one label of a DNS name.
var dnsLabel = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?$`)

func checkHost(host string, bracketed bool) error {
	address, err := netip.ParseAddr(host)
	if err == nil && address.Is4() != bracketed {
		if is := checkAddress(address); is != "" {
			return fmt.Errorf("the host %s is %s: not allowed for extenders", host, is)
		}
		return nil
	}
	if bracketed || err == nil {
		return fmt.Errorf("the host %q is not valid: only IPv6 addresses are in brackets", host)
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
		return fmt.Errorf("the host %q is this host: not allowed for extenders", host)
	}
	return nil
}

func allDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }
