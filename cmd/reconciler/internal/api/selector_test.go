package api

import "testing"

func TestSelector(t *testing.T) {
	labels := map[string]string{"game": "openttd", "tier": "prod", "empty": ""}
	for _, tt := range []struct {
		text    string
		matches bool
	}{
		{"", true},
		{" ", true},
		{"game", true},
		{"owner", false},
		{"!owner", true},
		{"! game", false},
		{"game=openttd", true},
		{"game==openttd", true},
		{"game = openttd , tier != test", true},
		{"game=minetest", false},
		{"tier!=prod", false},
		{"owner!=me", true},
		{"empty=", true},
		{"game in (minetest, openttd)", true},
		{"game in (minetest),tier", false},
		{"owner notin (me,you)", true},
		{"tier notin (prod)", false},
		{"example.org/x", false},
	} {
		s, err := parseSelector(tt.text)
		if err != nil {
			t.Errorf("%q: %v", tt.text, err)
			continue
		}
		if got := s.matches(labels); got != tt.matches {
			t.Errorf("%q matches: %v, want %v", tt.text, got, tt.matches)
		}
	}
}

func TestSelectorFaults(t *testing.T) {
	for _, text := range []string{"=x", "a=b=c", "a b", ",", "a,", "a in", "a in (b", "a among (b)", "a>3)", "a=b c", "in (a)", "()"} {
		if s, err := parseSelector(text); err == nil {
			t.Errorf("%q is read as %+v", text, s)
		}
	}
}

func FuzzSelector(f *testing.F) {
	for _, seed := range []string{"", "game=openttd", "a in (b,c),!d", "a notin ()", "((", "a)b(,", "=,=", "!"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSelector(text)
		if err != nil {
			return
		}
		for _, r := range s {
			if r.key == "" {
				t.Fatalf("%q has a requirement without a key: %+v", text, s)
			}
			if r.matches(map[string]string{r.key: "x"}) && r.op == "!" {
				t.Fatalf("%q: absence is matched by presence", text)
			}
		}
	})
}
