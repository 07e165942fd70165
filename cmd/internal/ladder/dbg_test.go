package ladder
import ("testing";"time";"fmt";"github.com/lm-warden/warden/router/placement")
type dbg struct{*placement.Placer; last time.Time}
func (d *dbg) Step(e placement.Event, now time.Time) []placement.Action{
 a:=d.Placer.Step(e,now)
 if now.Sub(d.last)>=10*time.Second && now.Unix()<150 { d.last=now
  v:=d.View(now); fmt.Printf("%d q=%d growth=%.0f\n",now.Unix(),len(v.Queue),v.GrowthTokens)
  for _,r:=range v.Replicas{fmt.Printf("   %s held %d res %d tok %d cache %d share %.2f rate %.0f pre %d\n",r.ID,r.Held,r.Residents,r.ResidentTokens,r.CachedTokens,r.Share,r.PrefillRate,r.PrefillTokens)}
  if len(v.Queue)>0 {fmt.Printf("   head %+v\n",v.Queue[0])}
 }
 return a
}
func TestDbg(t *testing.T){
 f,_:=ReferenceFleet()
 p:=placement.New(placement.Config{Policy:"admission"})
 Play(Run{Work:Reference(24),Fleet:f,Seed:1,Warmup:0,Length:150*time.Second},&dbg{Placer:p})
}
