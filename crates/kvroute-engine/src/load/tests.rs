//! What each engine says of its load.

use std::io::Read;

use proptest::prelude::*;

use super::*;

/// The first question whose answer this is, read.
fn read(engine: EngineKind, path: &str, answer: &[u8]) -> Option<Vec<(u32, EngineLoad)>> {
    let question = engine.spec().load.iter().find(|question| question.path == path).unwrap();
    Some(question.loads(answer)?.iter().map(|(rank, load)| (rank.get(), load)).collect())
}

fn load(running: u64, waiting: u64, kv_usage: Option<f64>) -> EngineLoad {
    EngineLoad { running, waiting, kv_usage }
}

/// The body of a captured exchange.
fn captured(engine: &str, name: &str) -> String {
    let path = format!("{}/../../fixtures/{engine}/http.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let exchanges = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let found = exchanges.into_iter().find(|exchange| exchange["name"] == name).unwrap();
    found["response_body"].as_str().unwrap().to_owned()
}

#[test]
fn captured_answers_of_real_engines_are_read() {
    let excerpt = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/vllm/metrics_excerpt.txt");
    let excerpt = std::fs::read(excerpt).unwrap();
    let of_vllm = read(EngineKind::Vllm, "/metrics", &excerpt);
    assert_eq!(of_vllm, Some(vec![(0, load(0, 0, Some(0.0)))]));
    let busy = String::from_utf8(excerpt).unwrap();
    let busy = busy.replace(
        "num_requests_running{engine=\"0\",model_name=\"tiny-qwen3\"} 0.0",
        "num_requests_running{engine=\"0\",model_name=\"tiny-qwen3\"} 7.0",
    );
    assert_eq!(read(EngineKind::Vllm, "/metrics", busy.as_bytes()), Some(vec![(0, load(7, 0, Some(0.0)))]));

    let of_sglang = captured("sglang", "loads just after disconnect");
    let of_sglang = read(EngineKind::Sglang, "/v1/loads", of_sglang.as_bytes());
    assert_eq!(of_sglang, Some(vec![(0, load(0, 0, Some(0.0938)))]));

    let of_llama = captured("llamacpp", "get /metrics");
    let of_llama = read(EngineKind::LlamaCpp, "/metrics", of_llama.as_bytes());
    assert_eq!(of_llama, Some(vec![(0, load(0, 0, None))]));
}

#[test]
fn each_rank_of_a_server_has_its_own_load() {
    let text = "vllm:num_requests_running{engine=\"1\",model_name=\"m\"} 3.0\n\
                vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 1.0\n\
                vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 4.0\n\
                vllm:num_requests_waiting{engine=\"1\",model_name=\"m\"} 0.0\n\
                vllm:num_requests_waiting_by_reason{engine=\"0\",reason=\"capacity\"} 9.0\n\
                vllm:gpu_cache_usage_perc{engine=\"1\",model_name=\"m\"} 0.25\n";
    let loads = read(EngineKind::Vllm, "/metrics", text.as_bytes());
    assert_eq!(loads, Some(vec![(0, load(1, 4, None)), (1, load(3, 0, Some(0.25)))]));

    let text = "{\"loads\":[{\"dp_rank\":1,\"num_running_reqs\":2,\"num_waiting_reqs\":5,\"token_usage\":0.5,\"new\":[]},\
                {\"num_running_reqs\":1,\"num_waiting_reqs\":0}]}";
    let loads = read(EngineKind::Sglang, "/v1/loads", text.as_bytes());
    assert_eq!(loads, Some(vec![(0, load(1, 0, None)), (1, load(2, 5, Some(0.5)))]));
}

#[test]
fn processes_that_tell_the_same_rank_are_not_added_up() {
    let text = "sglang_num_running_reqs{dp_rank=\"0\",tp_rank=\"0\"} 6\n\
                sglang_num_running_reqs{dp_rank=\"0\",tp_rank=\"1\"} 5\n\
                sglang:num_queue_reqs{dp_rank=\"0\",tp_rank=\"0\"} 2\n\
                sglang:num_queue_reqs{dp_rank=\"0\",tp_rank=\"1\"} 2\n\
                sglang:token_usage{dp_rank=\"0\"} 0.75\n";
    let loads = read(EngineKind::Sglang, "/metrics", text.as_bytes());
    assert_eq!(loads, Some(vec![(0, load(6, 2, Some(0.75)))]));
}

#[test]
fn documented_names_of_tensorrt_llm_are_read() {
    let text = "trtllm_num_active_requests{engine_type=\"trtllm\",model_name=\"m\"} 8.0\n\
                trtllm_server_queue_length{engine_type=\"trtllm\",model_name=\"m\"} 3.0\n\
                trtllm_kv_cache_utilization{engine_type=\"trtllm\",model_name=\"m\"} 0.4\n";
    let loads = read(EngineKind::TensorRtLlm, "/prometheus/metrics/", text.as_bytes());
    assert_eq!(loads, Some(vec![(0, load(8, 3, Some(0.4)))]));
}

#[test]
fn a_cache_that_is_full_of_what_idle_slots_keep_is_no_load() {
    let text =
        "llamacpp:requests_processing 1\nllamacpp:requests_deferred 0\nllamacpp:kv_cache_usage_ratio 0.9\n";
    assert_eq!(read(EngineKind::LlamaCpp, "/metrics", text.as_bytes()), Some(vec![(0, load(1, 0, None))]));
}

#[test]
fn numbers_that_cannot_be_loads_are_left_out() {
    let told = |running: &str, usage: &str| {
        let text = format!(
            "vllm:num_requests_running {running}\nvllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc {usage}\n"
        );
        read(EngineKind::Vllm, "/metrics", text.as_bytes()).map(|loads| loads[0].1)
    };
    assert_eq!(told("2", "1.5"), Some(load(2, 1, Some(1.0))));
    for usage in ["NaN", "-0.5", "+Inf", "x"] {
        assert_eq!(told("2", usage), Some(load(2, 1, None)), "{usage}");
    }
    assert_eq!(told("1e300", "0"), Some(load(u32::MAX.into(), 1, Some(0.0))));
    for running in ["NaN", "-1", "+Inf", ""] {
        assert_eq!(told(running, "0"), None, "{running}");
    }
}

#[test]
fn half_of_a_load_and_ranks_beyond_belief_are_no_load() {
    let read = |text: &str| read(EngineKind::Vllm, "/metrics", text.as_bytes());
    assert_eq!(read("vllm:num_requests_running{engine=\"0\"} 3\n"), None);
    assert_eq!(read("vllm:num_requests_waiting{engine=\"0\"} 3\n"), None);
    for rank in ["1024", "4294967295", "-1", "x", ""] {
        let of_rank = |family: &str| format!("vllm:num_requests_{family}{{engine=\"{rank}\"}} 1\n");
        assert_eq!(read(&(of_rank("running") + &of_rank("waiting"))), None, "{rank}");
    }
}

#[test]
fn the_only_rank_of_a_server_is_found_whatever_its_number() {
    let loads = |ranks: &[u32]| {
        let ranks = ranks.iter().map(|rank| (DpRank::new(*rank), load(u64::from(*rank), 0, None)));
        EngineLoads { ranks: ranks.collect() }
    };
    let running = |loads: &EngineLoads, rank, of| loads.of(DpRank::new(rank), of).map(|load| load.running);
    assert_eq!(running(&loads(&[3]), 0, 1), Some(3));
    assert_eq!(running(&loads(&[3]), 0, 2), None);
    assert_eq!(running(&loads(&[3, 4]), 0, 1), None);
    assert_eq!(running(&loads(&[0, 1]), 1, 2), Some(1));
}

#[test]
fn every_engine_but_the_unknown_one_tells_its_load_and_says_what_helps() {
    for engine in EngineKind::ALL {
        assert_eq!(engine.tells_load(), engine != EngineKind::OpenAi, "{engine}");
        assert!(!engine.load_remedy().is_empty());
    }
}

proptest! {
    /// Against the plainest model: the numbers of each rank, the largest of several.
    #[test]
    fn an_exposition_tells_the_loads_that_were_written_into_it(
        told in proptest::collection::vec((0u32..4, 0u8..3, 0u32..1000), 0..24),
    ) {
        let families = ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"];
        let mut text = String::from("# TYPE vllm:num_requests_running gauge\n");
        for (rank, family, value) in &told {
            let value = if *family == 2 { f64::from(*value) / 1000.0 } else { f64::from(*value) };
            text += &format!("{}{{engine=\"{rank}\"}} {value}\nother{{engine=\"{rank}\"}} 5000\n", families[usize::from(*family)]);
        }
        let largest = |rank, family| {
            told.iter().filter(|told| (told.0, told.1) == (rank, family)).map(|told| told.2).max()
        };
        let expected: Vec<_> = (0..4)
            .filter_map(|rank| {
                let (running, waiting) = largest(rank, 0).zip(largest(rank, 1))?;
                let usage = largest(rank, 2).map(|usage| f64::from(usage) / 1000.0);
                Some((rank, load(running.into(), waiting.into(), usage)))
            })
            .collect();
        let loads = read(EngineKind::Vllm, "/metrics", text.as_bytes());
        prop_assert_eq!(loads.unwrap_or_default(), expected);
    }

    #[test]
    fn arbitrary_bytes_are_read_without_a_panic(bytes: Vec<u8>, text in "\\PC{0,200}") {
        for engine in EngineKind::ALL {
            for question in engine.spec().load {
                question.loads(&bytes);
                question.loads(text.as_bytes());
            }
        }
    }
}
