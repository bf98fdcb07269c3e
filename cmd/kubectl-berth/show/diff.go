package show

// diffContext is how many equal lines are shown before and after a difference.
const diffContext = 3

// Diff compares two lists of lines. It prefixes removed lines with "- ", added ones with "+
// " and equal ones with "  ". Equal lines farther than diffContext from a difference are
// replaced by "  …". It returns nil for equal lists.
func Diff(before, after []string) []string {
	lines := diffLines(before, after)
	shown, differs := make([]bool, len(lines)), false
	for i, line := range lines {
		if line[0] == ' ' {
			continue
		}
		differs = true
		for j := max(0, i-diffContext); j <= min(len(lines)-1, i+diffContext); j++ {
			shown[j] = true
		}
	}
	if !differs {
		return nil
	}
	var out []string
	for i, line := range lines {
		switch {
		case shown[i]:
			out = append(out, line)
		case i == 0 || shown[i-1]:
			out = append(out, "  …")
		}
	}
	return out
}

// diffLines compares two lists of lines by their longest common subsequence and returns all
// lines with their prefixes.
func diffLines(before, after []string) []string {
	// common[i][j] is the length of the longest common subsequence of before[i:] and after[j:].
	common := make([][]int, len(before)+1)
	for i := range common {
		common[i] = make([]int, len(after)+1)
	}
	for i := len(before) - 1; i >= 0; i-- {
		for j := len(after) - 1; j >= 0; j-- {
			if before[i] == after[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []string
	i, j := 0, 0
	for i < len(before) || j < len(after) {
		switch {
		case i < len(before) && j < len(after) && before[i] == after[j]:
			out = append(out, "  "+before[i])
			i, j = i+1, j+1
		case j == len(after) || i < len(before) && common[i+1][j] >= common[i][j+1]:
			out = append(out, "- "+before[i])
			i++
		default:
			out = append(out, "+ "+after[j])
			j++
		}
	}
	return out
}
