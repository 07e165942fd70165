package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/overlay"
	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui"
)

// upFlags are the flags of `warden up`.
type upFlags struct {
	overlay.Models
	demoLoad  int
	detach    bool
	noWait    bool
	noTUI     bool
	ascii     bool
	progress  string
	leash     bool
	takeover  bool
	forConfig map[string]any // by configuration key
}

func (a *app) upCommand() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up [--model NAME] [-- VLLM-ARGS...]",
		Short: "Start the replicas and serve them",
		Long: `Finds the GPUs, starts one engine per GPU (or per group of --tp), watches each
and serves all on one OpenAI- and Anthropic-compatible address. Each turn goes to
the replica whose prefix cache holds it. What follows -- goes to vLLM unchanged.`,
		Example: `  warden up --demo
  warden up --model qwen3-4b --dp 4
  warden up --model qwen3-4b -- --max-model-len 16k`,
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash > 0 || (dash < 0 && len(args) > 0) {
				return fmt.Errorf("unexpected argument %q: a model is named with --model, vLLM's own arguments follow --", args[0])
			}
			return nil
		},
	}
	f.register(a, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f.EngineArgs = args
		f.collect(cmd)
		return a.up(cmd.Context(), &f)
	}
	return cmd
}

// configFlags are the flags that stand for a configuration key.
var configFlags = map[string]string{
	"listen": "listen", "insecure": "insecure", "drain": "drain", "max-wait": "max_wait", "api-keys-file": "api_keys_file", "tls-cert": "tls_cert", "tls-key": "tls_key",
	"access-log": "access_log", "device": "engine::device", "vllm": "engine::vllm", "parallel-start": "engine::parallel_start",
}

func (f *upFlags) register(a *app, cmd *cobra.Command) {
	d := configs.Default()
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringSliceVar(&f.Names, "model", nil, "short `NAME` (warden models), repository or directory; repeatable")
	fl.IntVar(&f.DP, "dp", 0, "`N` replicas; 0: as many as the GPUs allow")
	fl.IntVar(&f.TP, "tp", 0, "`N` GPUs for each replica, default 1")
	fl.IntSliceVar(&f.GPUs, "gpus", nil, "use only these GPUs, a `LIST` such as 0,1")
	fl.String("device", d.Engine.Device, "`DEVICE` engines run on: cuda, or cpu for vLLM's CPU build [WARDEN_ENGINE_DEVICE]")
	fl.String("vllm", "", "`PATH` the vllm program, else it is searched for [WARDEN_ENGINE_VLLM]")
	fl.String("listen", d.Listen, "`ADDRESS` where the API listens [WARDEN_LISTEN]")
	fl.StringVar(&f.Affinity, "affinity", "", "`MODE` placement: on (affinity), admission or off")
	fl.StringVar(&f.SpillLimit, "spill-limit", "", "`N` requests in flight from which a turn is served elsewhere, or auto")
	fl.IntVar(&f.MaxNumSeqs, "max-num-seqs", 0, "`N` concurrent sequences of an engine; 0: as many as its KV cache holds sessions")
	fl.StringVar(&f.KVOffload, "kv-offload", "", "`SIZE` of the KV cache's tier in host memory: auto, off or GiB per replica")
	fl.Bool("parallel-start", false, "start all replicas at once [WARDEN_ENGINE_PARALLEL_START]")
	fl.String("api-keys-file", "", "0600 `FILE` of API keys (warden keys) [WARDEN_API_KEYS_FILE]")
	fl.String("access-log", "", "`FILE` for a JSON line a request, never content; rotated, not compressed [WARDEN_ACCESS_LOG]")
	fl.String("tls-cert", "", "PEM `FILE` of the API's certificate chain [WARDEN_TLS_CERT]")
	fl.String("tls-key", "", "PEM `FILE` of its private key [WARDEN_TLS_KEY]")
	fl.Bool("insecure", false, "listen beyond loopback without API keys [WARDEN_INSECURE]")
	fl.Duration("drain", d.Drain, "longest `TIME` for held requests at the stop [WARDEN_DRAIN]")
	fl.Duration("max-wait", d.MaxWait, "longest `TIME` a request waits for a replica [WARDEN_MAX_WAIT]")
	fl.BoolVar(&f.Demo, "demo", false, "SIMULATED engines and load: no GPU, no vLLM")
	fl.IntVar(&f.demoLoad, "demo-sessions", 10, "`N` agent sessions of the demo's own load; 0: none")
	fl.BoolVarP(&f.detach, "detach", "d", false, "return when all replicas are ready and go on behind")
	fl.BoolVar(&f.noWait, "no-wait", false, "with -d: return at once")
	fl.BoolVar(&f.noTUI, "no-tui", false, "no dashboard")
	fl.BoolVar(&f.ascii, "ascii", false, "ASCII only")
	fl.StringVar(&f.progress, "progress", "auto", "`FORM` progress on stderr: auto, tty, plain, json or quiet")
	fl.BoolVar(&f.leash, "leash", false, "started by another warden: descriptors 3 and 4 are its leash and its report")
	_ = fl.MarkHidden("leash")
	fl.BoolVar(&f.takeover, "takeover", false, "started by `warden upgrade`: descriptor 3 is the handover")
	_ = fl.MarkHidden("takeover")
	_ = cmd.RegisterFlagCompletionFunc("model", a.completeCatalogue)
}

func (f *upFlags) collect(cmd *cobra.Command) {
	f.Changed = cmd.Flags().Changed
	f.forConfig = map[string]any{}
	for flag, key := range configFlags {
		if cmd.Flags().Changed(flag) {
			f.forConfig[key] = cmd.Flags().Lookup(flag).Value.String()
		}
	}
}

// settle turns flags and files into the configuration of this start.
func (a *app) settle(f *upFlags) (configs.Config, error) {
	if f.Demo {
		f.forConfig["engine::device"] = configs.DeviceSimulated
		f.forConfig["engine::parallel_start"] = "true"
	}
	loaded, err := a.loadConfig(f.forConfig)
	if err != nil {
		return loaded.Config, err
	}
	cfg := loaded.Config
	if err := f.Apply(&cfg); err != nil {
		return cfg, err
	}
	if len(cfg.Models) == 0 {
		return cfg, exit.Fail(exit.Usage, errors.New("no model was named"),
			"`warden up --model qwen3-4b` (`warden models` lists the names), or without GPU and vLLM: `warden up --demo`")
	}
	if err := cfg.Validate(); err != nil {
		var unknown *configs.UnknownModelError
		if errors.As(err, &unknown) {
			return cfg, exit.Fail(exit.Usage, unknown, "")
		}
		return cfg, exit.Fail(exit.Config, err, "")
	}
	return cfg, nil
}

// up starts a warden and watches it: in this process where nobody looks on
// (services, pipes), else in one of its own behind this terminal, so that a
// person can leave it running.
func (a *app) up(ctx context.Context, f *upFlags) error {
	if f.takeover {
		return a.runTakeover(f)
	}
	cfg, err := a.settle(f)
	if err != nil {
		return err
	}
	mode, err := progressMode(f.progress, a)
	if err != nil {
		return err
	}
	if f.leash {
		return a.runLeashed(cfg, f)
	}
	if client, err := control.Dial(ctx, paths.ControlSocket(cfg.Name)); err == nil {
		defer client.Close()
		return a.alreadyRunning(ctx, client, cfg, f)
	}
	interactive := isTerminal(a.in) && isTerminal(a.out) && isTerminal(a.err) && !f.noTUI && mode == tui.ProgressTTY
	if f.detach || interactive {
		return a.upBehind(ctx, cfg, f, mode)
	}
	return a.upHere(cfg, f, mode)
}

func progressMode(name string, a *app) (tui.ProgressMode, error) {
	switch name {
	case "auto":
		if !isTerminal(a.err) || envDumb() {
			return tui.ProgressPlain, nil
		}
		return tui.ProgressTTY, nil
	case "tty":
		return tui.ProgressTTY, nil
	case "plain":
		return tui.ProgressPlain, nil
	case "json":
		return tui.ProgressJSON, nil
	case "quiet":
		return tui.ProgressQuiet, nil
	}
	return tui.ProgressPlain, exit.Fail(exit.Usage, fmt.Errorf("--progress %q is not one of auto, tty, plain, json, quiet", name), "")
}
