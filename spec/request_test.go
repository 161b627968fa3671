package spec

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func railsLaunch(t *testing.T) Launch {
	t.Helper()
	l, faults := resolveText(t, string(corpus(t, "good")["rails.yaml"]), smallHost)
	if len(faults) > 0 {
		t.Fatal(faultLines(faults))
	}
	return l
}

// A launch holds marks where secrets go, every default, and each value in a path as one value.
func TestResolveRequests(t *testing.T) {
	l := railsLaunch(t)
	const why = "going%20down%3A%20100%25%2C%20ok%3F"
	for i, want := range []*HTTPAction{
		{
			Endpoint: "rest", Scheme: "HTTP", Method: "POST", Path: "/v1/api/save?why=" + why + "&for=a%20b",
			Headers:   []HTTPHeader{{"X-Token", "Bearer " + MarkSecret("pal/token")}, {"X-Plain", "a\tb"}},
			Body:      "{\"message\": \"going down: 100%, ok?\"}\n",
			BasicAuth: &HTTPBasicAuth{"admin", MarkSecret("pal/admin")},
		},
		{Endpoint: "rest", Scheme: "HTTPS", Method: "GET", Path: "/"},
	} {
		if got := l.Stop[i].HTTP; !reflect.DeepEqual(got, want) {
			t.Errorf("step %d is %+v, want %+v", i, got, want)
		}
	}
	if want := (LaunchConsole{Input: ConsoleRCON, Endpoint: "rcon", Password: MarkSecret("pal/admin")}); *l.Console != want {
		t.Errorf("the console is %+v", l.Console)
	}
	if e := l.Endpoint(l.Console.Endpoint); e == nil || e.Port != 25575 || l.Endpoint("nothing") != nil {
		t.Errorf("its endpoint is %+v", e)
	}
	// The record keeps it as JSON.
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	var again Launch
	if err := json.Unmarshal(b, &again); err != nil || !reflect.DeepEqual(l, again) {
		t.Errorf("got %+v\nwant %+v (%v)", again, l, err)
	}
	if faults := again.Validate(); len(faults) > 0 {
		t.Error(faultLines(faults))
	}
}

// BP-1: what a caller gives to a request stays one value in its path, and is looked at no more.
func TestFillRequest(t *testing.T) {
	l := railsLaunch(t)
	c := l.Command("announce")
	c.Parameters[0].Pattern = ""
	a, faults := c.Fill(map[string]IntOrString{"text": word1("../x?a=$(port)&ä")}, l.Console)
	if len(faults) > 0 {
		t.Fatal(faultLines(faults))
	}
	if want := (HTTPAction{Endpoint: "rest", Scheme: "HTTP", Method: "PUT", Path: "/v1/say/..%2Fx%3Fa%3D%24%28port%29%26%C3%A4", Body: "../x?a=$(port)&ä"}); !reflect.DeepEqual(*a.HTTP, want) {
		t.Errorf("got %+v", a.HTTP)
	}
	if !strings.Contains(c.HTTP.Path, parameterMark) || c.Rail(l.Console) != "HTTP" {
		t.Errorf("the command has become %+v, over %s", c.HTTP, c.Rail(l.Console))
	}
	if _, faults := c.Fill(map[string]IntOrString{"text": word1(strings.Repeat("ä", 128))}, l.Console); len(faults) > 0 {
		t.Error(faultLines(faults))
	}
}

// EC-17: what holds between the parts of a launch, whoever made it.
func TestLaunchOfRails(t *testing.T) {
	for field, spoil := range map[string]func(*Launch){
		"spec.actions.stop.steps[0].http.endpoint":           func(l *Launch) { l.Stop[0].HTTP.Endpoint = "nothing" },
		"spec.actions.stop.steps[1].http.endpoint":           func(l *Launch) { l.Stop[1].HTTP.Endpoint = "game" },
		"spec.actions.stop.steps[0].http.headers[0].value":   func(l *Launch) { l.Stop[0].HTTP.Headers[0].Value = "a\x00b" },
		"spec.actions.stop.steps[0].http.basicAuth.password": func(l *Launch) { l.Stop[0].HTTP.BasicAuth.Password = MarkSecret("../etc/passwd") },
		"spec.actions.stop.steps[0].http.basicAuth":          func(l *Launch) { l.Stop[0].HTTP.Headers[0].Name = "authorization" },
		"spec.actions.stop.steps[0].http.path":               func(l *Launch) { l.Stop[0].HTTP.Path = "/" + MarkSecret("pal/admin") },
		"spec.actions.stop.steps[0].http.body":               func(l *Launch) { l.Stop[0].HTTP.Body = MarkSecret("pal/admin") },
		"spec.actions.stop.steps[2].console.line":            func(l *Launch) { l.Stop[2].Console.Line = MarkSecret("pal/admin") },
		"spec.actions.stop.steps[2]":                         func(l *Launch) { l.Stop[2].HTTP = l.Stop[1].HTTP },
		"spec.actions.commands[0].http.endpoint":             func(l *Launch) { l.Commands[0].HTTP.Endpoint = "game" },
		"spec.console.password":                              func(l *Launch) { l.Console.Password = "hunter2" },
		"spec.console.endpoint":                              func(l *Launch) { l.Console.Endpoint = "game" },
		"spec.console.input":                                 func(l *Launch) { l.Console.Input = "Carrier" },
		"spec.console.path":                                  func(l *Launch) { l.Console.Path = "a" },
	} {
		l := railsLaunch(t)
		spoil(&l)
		found := false
		for _, f := range l.Validate() {
			found = found || f.Field == field
			if strings.Contains(f.Error(), "hunter2") {
				t.Errorf("a fault tells a password: %s", f.Error())
			}
		}
		if !found {
			t.Errorf("%s: found are\n%s", field, faultLines(l.Validate()))
		}
	}
	for _, spoil := range []func(*Launch){
		func(l *Launch) { l.Console.Password = "" },
		func(l *Launch) { l.Console.Input = ConsoleQuakeRCON },
		func(l *Launch) { l.Console.Password += MarkSecret("a/b") },
	} {
		l := railsLaunch(t)
		spoil(&l)
		if len(l.Validate()) == 0 {
			t.Errorf("the console %+v is good", l.Console)
		}
	}
	l := railsLaunch(t)
	l.Console.Input, l.Console.Password = ConsoleTelnet, ""
	if faults := l.Validate(); len(faults) > 0 {
		t.Errorf("a console of text without a password:\n%s", faultLines(faults))
	}
}
