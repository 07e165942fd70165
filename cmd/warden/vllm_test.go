//go:build vllm

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/lm-warden/warden/cmd/internal/remote"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/vllm/setup"
)

// blockSize is the KV block of the built-in model's arguments, in tokens.
const blockSize = 32

// Two real vLLM replicas on the CPU, through the built program.
// `make test-vllm` installs vLLM and runs this.
func TestRealVLLM(t *testing.T) {
	w := launch(t, newHome(t), "--device", "cpu", "--model", "tiny", "--dp", "2", "--vllm", realVLLM(t), "--listen", "127.0.0.1:0", "--parallel-start")
	began := time.Now()
	status := w.waitAllReady(5 * time.Minute)
	t.Logf("two replicas ready after %v", time.Since(began).Round(time.Second))
	for _, r := range status.Replicas {
		t.Logf("%s: pid %d, cores %v, KV capacity %d tokens", r.ID, r.PID, r.CPUs, r.Engine.KVCapacityTokens)
		if r.Engine.KVCapacityTokens != 40000 {
			t.Errorf("%s: KV capacity %d tokens, want 40000", r.ID, r.Engine.KVCapacityTokens)
		}
	}
	t.Run("a conversation stays and its cached tokens are exact", func(t *testing.T) { w.checkCachedTokens(t) })
	t.Run("the engine's counters are read", func(t *testing.T) {
		w.waitFor(func(s control.Status) bool {
			cached := uint64(0)
			for _, r := range s.Replicas {
				if r.PromptTokens != nil {
					cached += r.PromptTokens.CachedTotal
				}
			}
			return cached > 0 && s.Totals.HitRate60s != nil
		})
	})
	for _, victim := range []string{"API server", "EngineCore"} {
		t.Run("kill -9 of the "+victim, func(t *testing.T) { w.checkComesBack(t, victim) })
	}
}

func realVLLM(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	found := setup.Find(filepath.Join(cache, "warden"), setup.CPU)
	if len(found) == 0 {
		t.Fatal("no CPU build of vLLM: `warden setup --device cpu` installs it")
	}
	return found[0].VLLM
}

func (w *running) waitAllReady(limit time.Duration) control.Status {
	w.t.Helper()
	return w.waitWithin(limit, func(s control.Status) bool {
		for _, r := range s.Replicas {
			if r.State == control.StateParked {
				out, _ := w.runCommand("logs", r.ID, "-n", "40")
				w.t.Fatalf("%s is parked: %s\n%s", r.ID, r.Note, out)
			}
			if r.State != control.StateReady || r.Engine == nil || r.Engine.KVCapacityTokens == 0 {
				return false
			}
		}
		return len(s.Replicas) > 0
	})
}

// checkCachedTokens plays six turns. The built-in model's tokenizer makes one
// token of each byte, and its answers are forced, so the history replays token
// by token: turn n+1 finds every full block of turn n's prompt and answer. The
// last token of an answer was sampled but never computed, so it does not count.
func (w *running) checkCachedTokens(t *testing.T) {
	var history []string
	home, computed := "", 0
	for turn := 1; turn <= 6; turn++ {
		history = append(history, message("user", fmt.Sprintf("turn %d: %s", turn, strings.Repeat("agents resend everything. ", 12))))
		body := fmt.Sprintf(`{"model":"tiny","max_tokens":40,"ignore_eos":true,"allowed_token_ids":[121],"messages":[%s]}`, strings.Join(history, ","))
		a := w.post("/v1/chat/completions", "exact", body, nil)
		if a.code != 200 || a.err != nil {
			t.Fatalf("turn %d: %d %v %s", turn, a.code, a.err, a.body)
		}
		usage := gjson.Get(a.body, "usage")
		prompt, output := int(usage.Get("prompt_tokens").Int()), int(usage.Get("completion_tokens").Int())
		cached := int(usage.Get("prompt_tokens_details.cached_tokens").Int())
		want := computed / blockSize * blockSize
		t.Logf("turn %d on %s (%s): prompt %d, cached %d, expected %d", turn, a.replica, a.reason, prompt, cached, want)
		if cached != want {
			t.Errorf("turn %d: vLLM reports %d cached tokens, want %d", turn, cached, want)
		}
		if home == "" {
			home = a.replica
		}
		if a.replica != home {
			t.Errorf("turn %d went to %s, the conversation is on %s", turn, a.replica, home)
		}
		computed = prompt + output - 1
		history = append(history, message("assistant", gjson.Get(a.body, "choices.0.message.content").String()))
	}
}

func message(role, content string) string {
	return fmt.Sprintf(`{"role":%q,"content":%q}`, role, content)
}

// checkComesBack kills one process of r0's tree and waits until none of the old
// tree is left and the replica is ready in a new generation.
func (w *running) checkComesBack(t *testing.T, victim string) {
	r, _ := remote.FindReplica(w.waitAllReady(time.Minute), "r0")
	tree := sessionOf(r.PID)
	if len(tree) < 2 {
		t.Fatalf("vLLM's tree is only %v", tree)
	}
	target := r.PID
	for pid, command := range tree {
		if victim != "API server" && strings.Contains(command, victim) {
			target = pid
		}
	}
	if victim != "API server" && target == r.PID {
		t.Fatalf("no %s in %v", victim, tree)
	}
	if err := syscall.Kill(target, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	w.waitFor(func(s control.Status) bool {
		now, _ := remote.FindReplica(s, "r0")
		return now.State != control.StateReady
	})
	t.Logf("noticed after %v", time.Since(began).Round(time.Millisecond))
	w.waitFor(func(s control.Status) bool {
		now, _ := remote.FindReplica(s, "r0")
		return now.PID != r.PID && now.PID != 0
	})
	for pid, command := range tree {
		if alive(pid) {
			t.Errorf("pid %d (%s) of the old tree is alive", pid, command)
		}
	}
	w.waitAllReady(3 * time.Minute)
	a := w.post("/v1/chat/completions", "after", `{"model":"tiny","max_tokens":4,"messages":[{"role":"user","content":"hi"}]}`, nil)
	t.Logf("%d processes ended, ready again after %v, answer %d from %s", len(tree), time.Since(began).Round(time.Second), a.code, a.replica)
	if a.code != 200 {
		t.Errorf("answer %d %s", a.code, a.body)
	}
}

// sessionOf lists the processes of the session that leader leads.
func sessionOf(leader int) map[int]string {
	tree := map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		fields, pid := statFields(file)
		if len(fields) > 3 && fields[3] == strconv.Itoa(leader) && fields[0] != "Z" {
			command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			tree[pid] = strings.ReplaceAll(string(command), "\x00", " ")
		}
	}
	return tree
}

// statFields returns what follows the name in /proc/PID/stat: state, parent,
// group, session, ...
func statFields(file string) ([]string, int) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, 0
	}
	pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
	_, rest, _ := strings.Cut(string(content), ") ")
	return strings.Fields(rest), pid
}

func alive(pid int) bool {
	fields, _ := statFields(fmt.Sprintf("/proc/%d/stat", pid))
	return len(fields) > 0 && fields[0] != "Z"
}
