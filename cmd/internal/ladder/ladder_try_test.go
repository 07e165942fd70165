package ladder
import ("testing";"time";"fmt";"os";"strings";"strconv")
func TestTry(t *testing.T){
 f,_:=ReferenceFleet()
 if os.Getenv("B")=="2250" { for i:=range f.Engines { f.Engines[i].Blocks=2251 } }
 ns:=[]int{4,8,12,16,24,32,48}
 if v:=os.Getenv("N");v!="" { ns=nil; for _,x:=range strings.Split(v,","){ k,_:=strconv.Atoi(x); ns=append(ns,k)}}
 ps:=Policies()
 if v:=os.Getenv("P");v!="" { ps=strings.Split(v,",")}
 for _,n:=range ns{
  for _,p:=range ps{
   t0:=time.Now()
   w:=Reference(n)
   if v:=os.Getenv("T");v!="" { w.Turns,_=strconv.Atoi(v)}
   if v:=os.Getenv("G");v!="" { k,_:=strconv.Atoi(v); w.Gap=time.Duration(k)*time.Second}
   fl:=f
   if v:=os.Getenv("H");v!="" { k,_:=strconv.Atoi(v); fl,_=f.WithHost(k)}
   r,err:=PlayNamed(Run{Work:w,Fleet:fl,Seed:1,Warmup:FullWarmup,Length:FullLength},p)
   if err!=nil{t.Fatal(err)}
   fmt.Printf("%2d %-10s p50 %6.2f p95 %6.2f p99 %6.1f max %6.1f t/m %5.1f tok/m %6.0f hit %.3f ses %5.1f/%5.1f first %5.1f/%5.1f later %5.2f/%5.2f mv %d pre %d wait %.1f L %.2f js %.2f rej %d %v\n",n,p,r.TTFB.P50,r.TTFB.P95,r.TTFB.P99,r.TTFB.Max,r.TurnsPerMinute,r.OutputPerMinute,r.HitRate,r.Session.P50,r.Session.P95,r.FirstTurns.P50,r.FirstTurns.P95,r.LaterTurns.P50,r.LaterTurns.P95,r.Moves,r.Preemptions,r.MaxWait,r.Little,r.JainSlowdown,r.Rejected,time.Since(t0).Round(time.Millisecond))
  }
 }
}
