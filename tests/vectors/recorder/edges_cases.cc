// edges_cases.cc: cases at the edges of mbarriers, bulk copies, clusters, and tensor maps changed on the device.
#include <cstdlib>

#include "edges.h"

namespace edges {

void add_mbarriers() {
  const auto mb = [](const Text& name, const Text& body) { add("mbarrier " + name, one(body)); };
  mb("init 1048575", init("1048575") + arrive() + pending(0) + test(1, 0));
  mb("init 1048576", init("1048576") + arrive() + pending(0) + test(1, 0) + test(2, 1));
  mb("arrivals end phases", init("2") + arrive() + pending(0) + test(1, 0) + arrive() + pending(2) + test(3, 0) + test(4, 1) + arrive("2") + pending(5) + test(6, 1) + test(7, 0));
  mb("arrive 3 of 2", init("2") + arrive("3") + pending(0) + test(1, 0) + test(2, 1) + arrive() + pending(3));
  mb("arrive 0", init("2") + arrive("0") + pending(0) + test(1, 0));
  mb("arrive 1048576", init("2") + arrive("1048576") + pending(0) + test(1, 0));
  mb("drop", init("2") + arrive("1", "arrive_drop") + pending(0) + arrive() + pending(1) + test(2, 0) + arrive() + pending(3) + test(4, 1));
  mb("drop the last", init("1") + arrive("1", "arrive_drop") + pending(0) + test(1, 0) + test(2, 1) + test(3, 0));
  mb("drop 2 of 1", init("1") + arrive("2", "arrive_drop") + pending(0) + test(1, 0) + test(2, 1));
  mb("noComplete that would complete", init("1") + arrive("1", "arrive.noComplete") + pending(0) + test(1, 0) + test(2, 1));
  mb("noComplete", init("3") + arrive("2", "arrive.noComplete") + pending(0) + arrive("1") + test(1, 0));
  mb("expect 1048575", init("1") + expect("1048575") + arrive() + test(0, 0) + complete("1048574") + test(1, 0) + complete("1") + test(2, 0));
  mb("expect 1048576", init("1") + expect("1048576") + arrive() + test(0, 0));
  // (The assembler makes one instruction of two expect_tx in a row: edges_words.cc keeps them apart.)
  mb("expect far too much", init("1") + expect("1048575") + expect("1048575") + expect("2") + arrive() + test(0, 0));
  mb("complete before expect", init("1") + complete("16") + test(0, 0) + expect("16") + test(1, 0) + arrive() + test(2, 0));
  mb("complete without expect, arrive", init("1") + complete("16") + arrive() + test(0, 0) + test(1, 1) + expect("16") + test(2, 0));
  mb("complete 1048575 early", init("1") + complete("1048575") + expect("1048575") + arrive() + test(0, 0));
  mb("complete 1048576 early", init("1") + complete("1048576") + arrive() + test(0, 0));
  mb("arrive and expect", init("1") + expecting("64") + pending(0) + test(1, 0) + complete("64") + test(2, 0));
  mb("expect 0", init("1") + expect("0") + arrive() + test(0, 0));
  mb("state of the phase before", init("1") + arrive() + "mov.b64 %s2, %s;\n" + "mbarrier.test_wait.shared.b64 %p, [%bar], %s2;\nselp.b32 %v, 1, 2, %p;\n" + put(0, "%v") + arrive() +
                                      "mbarrier.test_wait.shared.b64 %p, [%bar], %s2;\nselp.b32 %v, 1, 2, %p;\n" + put(1, "%v"));
  mb("state of this phase", init("2") + arrive() + "mbarrier.test_wait.shared.b64 %p, [%bar], %s;\nselp.b32 %v, 1, 2, %p;\n" + put(0, "%v"));
  mb("parity 2 and 3", init("1") + arrive() + "mov.u32 %v, 2;\nmbarrier.test_wait.parity.shared.b64 %p, [%bar], %v;\nselp.b32 %v, 1, 2, %p;\n" + put(0, "%v") +
                           "mov.u32 %v, 3;\nmbarrier.test_wait.parity.shared.b64 %p, [%bar], %v;\nselp.b32 %v, 1, 2, %p;\n" + put(1, "%v"));
  mb("arrive after inval", init("1") + "mbarrier.inval.shared.b64 [%bar];\n" + arrive() + test(0, 0) + test(1, 1));
  mb("test after inval", init("1") + "mbarrier.inval.shared.b64 [%bar];\n" + test(0, 0) + test(1, 1));
  mb("init after inval", init("1") + "mbarrier.inval.shared.b64 [%bar];\n" + init("2") + arrive() + pending(0) + test(1, 0) + arrive() + test(2, 0));
  mb("init again", init("1") + arrive() + test(0, 0) + init("1") + test(1, 0) + arrive() + test(2, 0));
  mb("zeros", "mov.b64 %s, 0;\nst.shared.b64 [%bar], %s;\n" + arrive() + test(0, 0) + test(1, 1));
  mb("ones", "mov.b64 %s, -1;\nst.shared.b64 [%bar], %s;\n" + arrive() + test(0, 0) + test(1, 1));
  mb("test of zeros", "mov.b64 %s, 0;\nst.shared.b64 [%bar], %s;\n" + test(0, 0) + test(1, 1));
  mb("misaligned init", "add.u32 %bar, %bar, 4;\n" + init("1") + test(0, 0));
  mb("misaligned arrive", init("1") + "add.u32 %bar, %bar, 4;\n" + arrive() + test(0, 0));
  mb("through a generic address", "cvt.u64.u32 %d, %bar;\ncvta.shared.u64 %d, %d;\nmbarrier.init.b64 [%d], 1;\nmbarrier.arrive.b64 %s, [%d];\n" + pending(0) + test(1, 0));
  mb("in global memory", "mbarrier.init.b64 [%out], 1;\nmbarrier.arrive.b64 %s, [%out];\n" + put(2, "1"));
  mb("try_wait with a hint", init("1") + "mov.u32 %v, 1000;\nmbarrier.try_wait.parity.shared.b64 %p, [%bar], 0, %v;\nselp.b32 %v, 1, 2, %p;\n" + put(0, "%v"));
  mb("phases of 5", init("1") + arrive() + arrive() + arrive() + arrive() + arrive() + test(0, 0) + test(1, 1) + pending(2));
  const Text copy = "cvta.to.global.u64 %d, %in;\ncp.async.ca.shared.global [%sm], [%d], 16;\n";
  mb("cp.async arrives", init("1") + copy + "cp.async.mbarrier.arrive.shared.b64 [%bar];\n" + arrive() + wait(0));
  mb("cp.async arrives, noinc", init("2") + copy + "cp.async.mbarrier.arrive.noinc.shared.b64 [%bar];\n" + test(0, 0) + arrive() + wait(1));
  mb("cp.async arrives alone", init("1") + copy + "cp.async.mbarrier.arrive.shared.b64 [%bar];\n" + wait(0));
}

void add_bulk() {
  const auto load = [](const Text& name, const Text& bytes, int to, int from, const Text& tx) {
    add("bulk load " + name, one(init("1") + expecting(tx) + "add.u32 %a, %sm, " + num(u64(to)) + ";\nadd.u64 %d, %in, " + num(u64(from)) + ";\nmov.u32 %v, " + bytes +
                                     ";\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%a], [%d], %v, [%bar];\n" + wait(0) + digest(1, 0, 1024)));
  };
  load("16", "16", 0, 0, "16"), load("4096", "4096", 0, 32, "4096"), load("0", "0", 0, 0, "0"), load("8", "8", 0, 0, "8"), load("24", "24", 0, 0, "24");
  load("to 8", "16", 8, 0, "16"), load("from 8", "16", 0, 8, "16"), load("to 16", "32", 16, 48, "32"), load("past shared memory", "65536", 0, 0, "65536");
  load("past memory", "16", 0, 1 << 30, "16");
  const auto store = [](const Text& name, const Text& bytes, int to, int from, const Text& how = "cp.async.bulk.global.shared::cta.bulk_group") {
    add("bulk store " + name, one("fence.proxy.async;\nadd.u32 %a, %sm, " + num(u64(from)) + ";\nadd.u64 %d, %out, " + num(u64(to)) + ";\nmov.u32 %v, " + bytes + ";\n" + how +
                                      " [%d], [%a], %v;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"));
  };
  store("16", "16", 0, 16), store("128", "128", 16, 0), store("0", "0", 0, 0), store("8", "8", 0, 0), store("to 8", "16", 8, 0), store("from 8", "16", 0, 8), store("past memory", "16", 1 << 30, 0);
  for (const char* f : {"add.u32", "add.s32", "add.u64", "add.f32", "add.f64", "add.noftz.f16", "add.noftz.bf16", "min.u32", "min.s32", "min.u64", "min.s64", "min.f16", "min.bf16", "max.u32", "max.s32",
                        "max.u64", "max.s64", "max.f16", "max.bf16", "inc.u32", "dec.u32", "and.b32", "and.b64", "or.b32", "or.b64", "xor.b32", "xor.b64"})
    store(Text("reduce ") + f, "256", 0, 64, Text("cp.reduce.async.bulk.global.shared::cta.bulk_group.") + f);
  add("bulk prefetch", one("cp.async.bulk.prefetch.L2.global [%in], 64;\n" + put(0, "1")));
  add("bulk prefetch 8", one("mov.u32 %v, 8;\ncp.async.bulk.prefetch.L2.global [%in], %v;\n" + put(0, "1")));
  add("bulk prefetch past memory", one("add.u64 %d, %in, 1073741824;\ncp.async.bulk.prefetch.L2.global [%d], 64;\n" + put(0, "1")));
}

/// Every block has a barrier and waits; block 0 issues.
Text in_cluster(const Text& expect_bytes, const Text& issue) {
  const Text each = "@%q bra READY;\n" + init("1") + (expect_bytes.empty() ? Text() : expecting(expect_bytes)) + "READY:\n" + kSync;
  return each + "setp.ne.u32 %p, %rank, 0;\nor.pred %p, %p, %q;\n@%p bra ISSUED;\n" + issue + "ISSUED:\n@%q bra WAITED;\n" + test(0, 0, "%bar", 20000) + digest(1, 0, 256) + "WAITED:\n" + kSync;
}

void add_clusters() {
  const auto multicast = [](const Text& name, const Text& mask, int cluster) {
    add("multicast bulk " + name, in_cluster("512", "mov.u16 %m16, " + mask + ";\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%sm], [%in], 512, [%bar], %m16;\n"), cluster);
    add("multicast box " + name, in_cluster("1024", "mov.u16 %m16, " + mask + ";\ncp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%sm], [%map, {%zero, %zero}], [%bar], %m16;\n"), cluster);
  };
  multicast("5 of 4", "5", 4), multicast("15 of 4", "15", 4), multicast("2 of 2", "2", 2), multicast("0 of 2", "0", 2), multicast("4 of 2", "4", 2), multicast("7 of 2", "7", 2), multicast("65535 of 8", "-1", 8), multicast("65535 of 16", "-1", 16), multicast("43690 of 16", "43690", 16);
  const Text remote = "mapa.shared::cluster.u32 %a, %sm, 1;\nmapa.shared::cluster.u32 %b, %bar, 1;\n";
  add("bulk shared to cluster", in_cluster("256", remote + "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%a], [%sm], 256, [%b];\n"), 2);
  for (const char* f : {"add.u32", "add.s32", "add.u64", "min.u32", "min.s32", "max.u32", "max.s32", "inc.u32", "dec.u32", "and.b32", "or.b32", "xor.b32"})
    add(Text("bulk reduce to cluster ") + f, in_cluster("256", remote + "add.u32 %c, %sm, 64;\ncp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes." + f + " [%a], [%c], 256, [%b];\n"), 2);
  for (const char* f : {"b32", "b64", "u32", "s64", "f32", "f64"}) {
    const bool wide = f[1] == '6';
    add(Text("st.async ") + f, in_cluster(wide ? "8" : "4", remote + (f[0] == 'f' ? (wide ? "mov.b64 %fd, %in64;\n" : "mov.b32 %ff, 0x7fc12345;\n") : "") + "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes." + f + " [%a], " +
                                                              (f[0] == 'f' ? (wide ? "%fd" : "%ff") : wide ? "%in64" : "0x12345678") + ", [%b];\n"), 2);
  }
  add("st.async v4", in_cluster("16", remote + "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%a], {1, 2, 3, 4}, [%b];\n"), 2);
  add("st.async misaligned", in_cluster("4", remote + "add.u32 %a, %a, 2;\nst.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%a], 7, [%b];\n"), 2);
  for (const char* f : {"inc.u32", "dec.u32", "min.u32", "min.s32", "max.u32", "max.s32", "add.u32", "add.s32", "and.b32", "or.b32", "xor.b32", "add.u64"})
    add(Text("red.async ") + f, in_cluster(f[5] == '6' ? "8" : "4", remote + "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes." + f + " [%a], " + (f[5] == '6' ? "%in64" : "%in32") + ", [%b];\n"), 2);
  const Text other = "mapa.shared::cluster.u32 %b, %bar, 1;\n";
  const auto remotely = [&](const Text& name, const Text& issue) { add("remote " + name, in_cluster("", issue), 2); };
  remotely("arrive", other + "mbarrier.arrive.shared::cluster.b64 _, [%b];\n");
  remotely("arrive release cluster", other + "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%b];\n");
  remotely("arrive with 16 bytes", other + "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%b], 16;\n");
  remotely("expect, complete, arrive", other + "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%b], 16;\nmbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%b], 16;\nmbarrier.arrive.shared::cluster.b64 _, [%b];\n");
  remotely("drop", other + "mbarrier.arrive_drop.shared::cluster.b64 _, [%b];\n");
  remotely("arrive at rank 5 of 2", "mapa.shared::cluster.u32 %b, %bar, 5;\nmbarrier.arrive.shared::cluster.b64 _, [%b];\n");
  remotely("load from rank 1", "mapa.shared::cluster.u32 %b, %sm, 1;\nld.shared::cluster.b32 %v, [%b+4];\n" + put(40, "%v"));
  remotely("load from rank 5 of 2", "mapa.shared::cluster.u32 %b, %sm, 5;\nld.shared::cluster.b32 %v, [%b+4];\n" + put(40, "%v"));
  remotely("store to rank 5 of 2", "mapa.shared::cluster.u32 %b, %sm, 5;\nst.shared::cluster.b32 [%b+4], 7;\n");
  remotely("load past the end of rank 1", "mapa.shared::cluster.u32 %b, %sm, 1;\nadd.u32 %b, %b, 262144;\nld.shared::cluster.b32 %v, [%b];\n" + put(40, "%v"));
  remotely("atomic", "mapa.shared::cluster.u32 %b, %sm, 1;\natom.shared::cluster.add.u32 %v, [%b], 5;\n" + put(40, "%v"));
  remotely("rank of addresses", "mapa.shared::cluster.u32 %b, %sm, 1;\ngetctarank.shared::cluster.u32 %v, %b;\n" + put(40, "%v") + "getctarank.shared::cluster.u32 %v, %sm;\n" + put(41, "%v") +
                                    "cvt.u64.u32 %d, %sm;\ncvta.shared.u64 %d, %d;\nmapa.u64 %d2, %d, 1;\nisspacep.shared::cluster %p, %d2;\nselp.b32 %v, 1, 2, %p;\n" + put(42, "%v") +
                                    "isspacep.shared::cta %p, %d2;\nselp.b32 %v, 1, 2, %p;\n" + put(43, "%v") + "isspacep.shared::cluster %p, %d;\nselp.b32 %v, 1, 2, %p;\n" + put(44, "%v") + "getctarank.u64 %v, %d2;\n" + put(45, "%v"));
  for (const int n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16}) {
    Text t = "@%q bra END;\n";
    int at = 0;
    for (const char* r : {"%cluster_ctaid.x", "%cluster_nctaid.x", "%clusterid.x", "%nclusterid.x", "%cluster_ctarank", "%cluster_nctarank", "%cluster_ctaid.y", "%nclusterid.y"}) t += Text("mov.u32 %v, ") + r + ";\n" + put(at++, "%v");
    add("registers in a cluster of " + num(u64(n)), t + "mov.pred %p, %is_explicit_cluster;\nselp.b32 %v, 1, 2, %p;\n" + put(at, "%v") + "END:\n", n);
  }
  // A value goes round a ring of 16 blocks: each adds its rank to what its left neighbour left in its shared memory.
  for (const int n : {3, 16}) {
    Text t = "@%q bra START;\nst.shared.b32 [%sm], 0;\nSTART:\n" + Text(kSync) + "mov.u32 %n, 0;\nSTEP:\nsetp.ne.u32 %p, %n, %rank;\nor.pred %p, %p, %q;\n@%p bra NEXT;\nld.shared.b32 %v, [%sm];\nmad.lo.u32 %v, %v, 3, %rank;\nadd.u32 %a, %rank, 1;\nrem.u32 %a, %a, " + num(u64(n)) +
             ";\nmapa.shared::cluster.u32 %b, %sm, %a;\nst.shared::cluster.b32 [%b], %v;\natom.shared::cluster.add.u32 %c, [%b+4], %v;\n" + put(0, "%v") + put(1, "%c") + "NEXT:\n" + kSync + "add.u32 %n, %n, 1;\nsetp.lt.u32 %p, %n, " + num(u64(n)) + ";\n@%p bra STEP;\n";
    add("ring of " + num(u64(n)), t, n);
  }
  for (const char* m : {"0xffffffff", "0x80000000", "0x00ff0000", "0x0000ff00"})
    add(Text("elect ") + m, Text("mov.u32 %a, 1;\nshl.b32 %a, %a, %lane;\nand.b32 %a, %a, ") + m + ";\nsetp.eq.u32 %p, %a, 0;\n@%p bra END;\nelect.sync %v|%p, " + m + ";\n@!%p bra END;\n" + put(0, "%v") + put(1, "%lane") + "END:\n");
}

void add_tensors() {
  const auto load = [](const Text& name, const Text& before, int to, int swizzle) {
    add("box " + name, one(init("1") + expecting("1024") + "mov.u32 %b, 0;\nmov.u32 %c, 0;\n" + before + "add.u32 %a, %sm, " + num(u64(to)) +
                               ";\ncp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%a], [%map, {%b, %c}], [%bar];\n" + test(0, 0, "%bar", 20000) + digest(1, 0, 1024)), 1, swizzle);
  };
  for (const int swizzle : {0, 1, 2, 3})
    for (const int to : {0, 16, 64, 128, 256, 512, 1024}) load("swizzle " + num(u64(swizzle)) + " to " + num(u64(to)), "", to, swizzle);
  load("with a barrier out of line", "add.u32 %bar, %bar, 4;\n", 0, 0);
  load("past shared memory", "add.u32 %sm, %sm, 1048576;\n", 0, 0);
  load("of a map in shared memory", "cvt.u64.u32 %map, %sm;\ncvta.shared.u64 %map, %map;\n", 0, 0);
  load("of a map out of line", "add.u64 %map, %map, 8;\n", 0, 0);
  add("box store from 64", one("fence.proxy.async;\nadd.u32 %a, %sm, 64;\ncp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%map, {%zero, %zero}], [%a];\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"));
  const auto prefetch = [](const Text& name, int x, int y) {
    add("box prefetch " + name, one("mov.u32 %b, " + std::to_string(x) + ";\nmov.u32 %c, " + std::to_string(y) + ";\ncp.async.bulk.prefetch.tensor.2d.L2.global.tile [%map, {%b, %c}];\n" + put(0, "1")));
  };
  prefetch("inside", 0, 0), prefetch("negative", -32, -8), prefetch("outside", 640, 640), prefetch("out of line", 1, 0);
  const auto replaced = [](const Text& name, const Text& change, const Text& bytes, const Text& at = "{%zero, %zero}", const Text& rank = "2d") {
    // The map goes to shared memory, is changed there, and copied to %out + 4096.
    Text t = "@%q bra COPIED;\nmov.u32 %n, 0;\nmov.b64 %d, %map;\nadd.u32 %a, %sm, 16384;\nMORE:\nld.b64 %s, [%d];\nst.shared.b64 [%a], %s;\nadd.u64 %d, %d, 8;\nadd.u32 %a, %a, 8;\nadd.u32 %n, %n, 1;\nsetp.lt.u32 %p, %n, 16;\n@%p bra MORE;\n"
             "add.u32 %a, %sm, 16384;\ncvt.u64.u32 %d, %a;\n" + change + init("1") + expecting(bytes) + "COPIED:\nbar.sync 0;\nadd.u32 %a, %sm, 16384;\nadd.u64 %d2, %outs, 4096;\n"
             "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d2], [%a], 128;\n"
             "@%q bra END;\nfence.proxy.tensormap::generic.acquire.gpu [%d2], 128;\ncp.async.bulk.tensor." + rank + ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%sm], [%d2, " + at + "], [%bar];\n" +
             test(0, 0, "%bar", 20000) + digest(1, 0, 2048) + "END:\n";
    add("replace " + name, t);
  };
  const auto change = [](const Text& field, const Text& value) { return "tensormap.replace.tile." + field + " [%d], " + value + ";\n"; };
  const Text b64 = ".shared::cta.b1024.b64", b32 = ".shared::cta.b1024.b32";
  replaced("nothing", "", "1024");
  replaced("the address", "add.u64 %d2, %in, 4096;\n" + change("global_address" + b64, "%d2"), "1024");
  replaced("the address, out of line", "add.u64 %d2, %in, 8;\n" + change("global_address" + b64, "%d2"), "1024");
  replaced("a dimension", change("global_dim" + b32, "0, 10"), "1024");
  replaced("the other dimension", change("global_dim" + b32, "1, 3"), "1024");
  replaced("a dimension by 0", change("global_dim" + b32, "1, 0"), "1024");
  replaced("a stride", "mov.b64 %s, 512;\n" + change("global_stride" + b64, "0, %s"), "1024");
  replaced("a stride out of line", "mov.b64 %s, 264;\n" + change("global_stride" + b64, "0, %s"), "1024");
  replaced("a box", change("box_dim" + b32, "1, 4"), "512");
  replaced("a box by 257", change("box_dim" + b32, "1, 257"), "1024");
  replaced("a box by 6 elements", change("box_dim" + b32, "0, 6"), "192");
  replaced("an element stride", change("element_stride" + b32, "1, 2"), "512");
  replaced("an element stride by 0", change("element_stride" + b32, "1, 0"), "1024");
  replaced("an element stride by 9", change("element_stride" + b32, "1, 9"), "1024");
  replaced("the rank by 0", change("rank" + b32, "0"), "128", "{%zero}", "1d");
  replaced("the rank by 2", change("rank" + b32, "2"), "1024", "{%zero, %zero, %zero}", "3d");
  replaced("the rank, not the instruction", change("rank" + b32, "2"), "1024");
  for (const char* v : {"0", "1", "6", "7", "8", "9", "10", "11", "12"}) {
    const int type = atoi(v), size = type == 0 ? 1 : type == 1 || type == 6 || type == 10 ? 2 : type == 4 || type == 5 || type == 9 ? 8 : 4;
    replaced(Text("the element type by ") + v, change("elemtype" + b32, v), num(u64(32 * 8 * size)));
  }
  for (const char* v : {"1", "2", "3"}) replaced(Text("the swizzle by ") + v, change("swizzle_mode" + b32, v), "1024");
  for (const char* v : {"1"}) replaced(Text("the fill by ") + v, change("fill_mode" + b32, v), "1024", "{%n32, %zero}");
  for (const char* v : {"1", "2"}) replaced(Text("the interleave by ") + v, change("interleave_layout" + b32, v), "1024");
}

}  // namespace edges
